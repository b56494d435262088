// What every start of another program shares: pipes, fork and exec, and how it ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "system/file_descriptor.hpp"
#include "system/subprocess.hpp"

namespace muster {

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

// Close-on-exec; the ends are above 2, so that giving one to a child as its standard output never overwrites another.
Result<Pipe> open_pipe();

using EnvironmentChanges = std::vector<std::pair<std::string, std::string>>;

// What the program finds as its standard input, output and errors.
struct ChildStreams {
  int input;
  int output;
  int errors;
};

// Starts a program, found through PATH when its name has no slash, as the leader of a process group of its own. It dies
// with the thread that starts it. An Error if it could not be started.
Result<pid_t> start_program(const std::vector<std::string>& command, const EnvironmentChanges& changes,
                            const ChildStreams& streams);

// "cannot open a pipe: …", with errno's reason.
Error no_process(std::string_view action);

// In a child, before it becomes anything else: it gets signals as usual, and dies with the thread that forked it. Only calls
// that are safe after a fork of a process with threads.
void begin_child(pid_t parent);

// How it ended, if it has: it is reaped.
std::optional<ProcessEnd> reap(pid_t pid);
std::optional<ProcessEnd> reap_until(pid_t pid, std::chrono::steady_clock::time_point deadline);
// Dead, but not yet reaped.
bool has_ended(pid_t pid);

// How long a killed process has to disappear; one that hangs in the kernel is left there.
constexpr std::chrono::milliseconds patience_after_kill(1000);

}  // namespace muster
