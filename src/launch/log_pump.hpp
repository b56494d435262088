// The thread that brings what ranks say to the console: whole lines, never mixed, without polling. It also remembers
// the last lines of each rank's errors, for the report of a failure.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster::launch {

// One stream of one rank. Either the rank writes a file and the pump follows it, or the rank writes into a pipe or
// terminal whose other end the pump has.
struct PumpedStream {
  int local_rank = 0;
  bool errors = false;                            // its standard error: goes to the console's error side, remembered
  std::optional<std::filesystem::path> followed;  // a file that exists
  FileDescriptor piped;                           // used when followed is absent
  bool console = true;                            // shown at all
  std::optional<std::string> prefix;              // whole lines with this before each; absent: bytes as they come
  std::vector<std::string> filters;               // lines that hold one of these also go, with the prefix, to
  std::optional<std::filesystem::path> filtered;  // this file
};

class LogPump {
 public:
  // output, errors: where the console's two sides are (1 and 2 but for tests).
  static Result<LogPump> start(int output, int errors);
  LogPump(LogPump&&) noexcept;
  LogPump& operator=(LogPump&&) noexcept;
  ~LogPump();  // finishes

  // A file that cannot be opened is an error.
  Result<void> add(PumpedStream stream);
  // Everything that was written before this call is out when it returns, and the streams are let go. The ranks are gone
  // by then; a process that outlived them and still holds a pipe is not waited for.
  void finish();
  // The end of what the rank said on its standard error: at most the given number of lines.
  std::vector<std::string> last_error_lines(int local_rank, std::size_t count) const;

 private:
  struct State;
  explicit LogPump(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A pair of ends for a rank's standard error that is not redirected: a pseudo-terminal where ours is a terminal, so
// that progress bars stay what they are; a pipe otherwise.
struct RelayedStream {
  FileDescriptor ours;
  FileDescriptor theirs;
};
Result<RelayedStream> relay_stream(int console);

}  // namespace muster::launch
