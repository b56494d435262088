// One stream of one rank on its way to the console: read here, cut into lines, written there.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "launch/error_tail.hpp"
#include "launch/log_pump.hpp"
#include "launch/prefixed_lines.hpp"

namespace muster::launch {

class LogFlow {
 public:
  enum class Progress {
    some,     // there may be more
    nothing,  // for now
    over,     // forever: the process that wrote it is gone
  };

  // Opens what has to be opened. console: where its lines go. tail: where its bytes are remembered, or null.
  static Result<LogFlow> open(PumpedStream stream, int console, ErrorTail* tail);

  const PumpedStream& stream() const { return stream_; }
  int source() const { return source_.number(); }

  // Reads once, into the buffer, and passes on what was read. Never waits for the rank, only for the console.
  struct Moved {
    Progress progress = Progress::nothing;
    std::size_t bytes = 0;
  };
  Moved move(std::span<char> buffer);
  // Passes on all that was written before this call, and not what is written meanwhile. The last call.
  void finish(std::span<char> buffer);

 private:
  LogFlow(PumpedStream stream, FileDescriptor source, FileDescriptor filtered, int console, ErrorTail* tail);
  void pass_on(std::string_view bytes, bool more_is_there);
  void pass_on_unchanged(std::string_view bytes, bool more_is_there);
  void write_carried();
  void write_out();
  void end();
  std::size_t waiting_bytes() const;

  PumpedStream stream_;
  FileDescriptor source_;
  FileDescriptor filtered_;
  int console_;
  ErrorTail* tail_;
  PrefixedLines lines_;
  LineBlock block_;
  std::string carried_;  // of an unchanged stream: the beginning of a line whose rest is there to be read
};

}  // namespace muster::launch
