// Child processes that end within a time limit: another program with its output, or a piece of this one that may crash.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace muster {

// How a process ended: one of exit_code and signal is set. (Neither, if this process ignores SIGCHLD.)
struct ProcessEnd {
  std::optional<int> exit_code;
  std::optional<int> signal;
  bool timed_out = false;  // it was killed at the limit
  bool operator==(const ProcessEnd&) const = default;
};

struct ProcessOutput {
  ProcessEnd end;
  std::string output;  // what it wrote to standard output
  std::string errors;  // what it wrote to standard error
};

// Runs a program, found through PATH when its name has no slash, with nothing to read. It gets this environment with
// the changes, and dies with the thread that waits for it. At the limit it is killed together with what it started.
// An Error only when it could not be started. Processes that it leaves behind are not waited for.
Result<ProcessOutput> run_process(const std::vector<std::string>& command,
                                  const std::vector<std::pair<std::string, std::string>>& environment_changes,
                                  std::chrono::milliseconds limit);

// Runs work in a fork of this process, whose exit code is what it returns. Signals have their default effect there, and
// no core is dumped: whatever work does, this process continues. Other threads do not exist in the fork.
Result<ProcessEnd> run_in_child(const std::function<int()>& work, std::chrono::milliseconds limit);

// "exit code 3", "signal 4 (Illegal instruction)", "still running after 2 s, killed".
std::string describe(const ProcessEnd& end, std::chrono::milliseconds limit);

}  // namespace muster
