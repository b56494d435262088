#include "system/subprocess.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/duration.hpp"
#include "system/file_descriptor.hpp"
#include "system/program_start.hpp"
#include "system/signals.hpp"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

ProcessEnd kill_and_reap(pid_t pid, pid_t target) {
  ::kill(target, SIGKILL);
  ProcessEnd end = reap_until(pid, Clock::now() + patience_after_kill).value_or(ProcessEnd{{}, SIGKILL});
  end.timed_out = true;
  return end;
}

// Appends what is available; closes the pipe at its end. Returns whether anything came.
bool take_available(FileDescriptor& from, std::string& text) {
  if (!from) return false;
  std::array<char, 65536> part;
  const ssize_t size = ::read(from.number(), part.data(), part.size());
  if (size > 0) text.append(part.data(), static_cast<std::size_t>(size));
  if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) FileDescriptor(std::move(from));
  return size > 0;
}

void wait_for_input(const FileDescriptor& first, const FileDescriptor& second, milliseconds longest) {
  std::array<pollfd, 2> waiting{pollfd{first.number(), POLLIN, 0}, pollfd{second.number(), POLLIN, 0}};
  ::poll(waiting.data(), waiting.size(), static_cast<int>(longest.count()));
}

ProcessEnd drain(pid_t pid, FileDescriptor output, FileDescriptor errors, Clock::time_point deadline,
                 ProcessOutput& result) {
  // A process it left behind may keep the pipes open; so that its own end is noticed, the wait is split into slices.
  constexpr milliseconds slice(10);
  while (output || errors) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return kill_and_reap(pid, -pid);
    wait_for_input(output, errors, std::min(left, slice));
    const bool ended = has_ended(pid);
    const bool some_output = take_available(output, result.output);
    const bool some_errors = take_available(errors, result.errors);
    if (ended && !some_output && !some_errors) break;
  }
  if (auto end = reap_until(pid, deadline)) return *end;
  return kill_and_reap(pid, -pid);
}

}  // namespace

Result<ProcessOutput> run_process(const std::vector<std::string>& command,
                                  const std::vector<std::pair<std::string, std::string>>& environment_changes,
                                  milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing) return no_process("open /dev/null");
  auto output = open_pipe(), errors = open_pipe();
  for (const auto* pipe : {&output, &errors})
    if (!*pipe) return pipe->error();
  const auto started =
      start_program(command, environment_changes, {nothing.number(), output->write.number(), errors->write.number()});
  if (!started) return started.error();
  const pid_t pid = *started;
  for (auto* pipe : {&output, &errors}) FileDescriptor(std::move((*pipe)->write));
  for (const auto* pipe : {&output, &errors}) ::fcntl((*pipe)->read.number(), F_SETFL, O_NONBLOCK);
  ProcessOutput result;
  result.end = drain(pid, std::move(output->read), std::move(errors->read), deadline, result);
  return result;
}

Result<ProcessEnd> run_in_child(const std::function<int()>& work, milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  const pid_t parent = ::getpid();
  pid_t pid = -1;
  {
    const BlockedSignals blocked;
    pid = ::fork();
    if (pid == 0) {
      // A core pattern that is a pipe ignores the limit; a process that is not dumpable has no core either way.
      const rlimit no_core{0, 0};
      ::setrlimit(RLIMIT_CORE, &no_core);
      ::prctl(PR_SET_DUMPABLE, 0);
      begin_child(parent);
      [&]() noexcept { ::_exit(work()); }();
    }
  }
  if (pid < 0) return no_process("start a process");
  if (auto end = reap_until(pid, deadline)) return *end;
  return kill_and_reap(pid, pid);
}

std::string describe(const ProcessEnd& end, milliseconds limit) {
  if (end.timed_out) return fmt::format("still running after {}, killed", to_string(limit));
  if (end.signal) return fmt::format("signal {} ({})", *end.signal, ::strsignal(*end.signal));
  if (end.exit_code) return fmt::format("exit code {}", *end.exit_code);
  return "ended, how is not known";
}

}  // namespace muster
