// A program that we talk with in lines, over its standard input and output. Its standard error is ours.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "system/file_descriptor.hpp"
#include "system/line_reader.hpp"
#include "system/subprocess.hpp"

namespace muster {

class Coprocess {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // The program leads a process group of its own, and dies with the thread that starts it. name: for messages.
  static Result<Coprocess> start(const std::vector<std::string>& command, std::string name, std::size_t longest_line);
  Coprocess(Coprocess&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)),
        input_(std::move(other.input_)),
        output_(std::move(other.output_)),
        lines_(std::move(other.lines_)) {}
  Coprocess& operator=(Coprocess&&) = delete;
  // Asks it to end: its input ends, then SIGTERM; what is still there of its group after a second is killed.
  ~Coprocess();

  struct Late {};          // the deadline has passed, or a stop was requested
  struct NoMoreOutput {};  // it has ended, or closed its standard output
  struct Called {};        // the other descriptor has something to read
  using Heard = std::variant<std::string, Late, NoMoreOutput, Called>;

  // Waits for its next line, and meanwhile sends what it takes of unsent, which is removed there: neither waits for the
  // other. call: another descriptor that ends the wait. An Error: a line that is too long.
  Result<Heard> converse(std::string& unsent, Deadline deadline, const std::stop_token& stop = {},
                         const FileDescriptor& call = {});
  // It no longer reads: what is unsent stays so.
  bool is_deaf() const { return !input_; }

  // How it ended, if it does within the time.
  std::optional<ProcessEnd> wait_for_end(std::chrono::milliseconds longest) const;
  // At once, with all of its group.
  void kill();

 private:
  Coprocess(pid_t pid, FileDescriptor input, FileDescriptor output, LineReader lines)
      : pid_(pid), input_(std::move(input)), output_(std::move(output)), lines_(std::move(lines)) {}
  void send(std::string& unsent);

  pid_t pid_;  // 0: moved from, or ended and reaped
  FileDescriptor input_;
  FileDescriptor output_;
  LineReader lines_;
};

}  // namespace muster
