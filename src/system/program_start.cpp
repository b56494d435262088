#include "system/program_start.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <thread>

#include "system/exec_arguments.hpp"
#include "system/files.hpp"
#include "system/signals.hpp"

namespace muster {
namespace {

std::vector<std::string> changed_environment(const EnvironmentChanges& changes) {
  std::vector<std::string> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (std::ranges::none_of(changes, [&](const auto& change) { return change.first == name; }))
      entries.emplace_back(text);
  }
  for (const auto& [name, value] : changes) entries.push_back(name + "=" + value);
  return entries;
}

[[noreturn]] void become(char* const* arguments, char* const* environment, const ChildStreams& streams, int failure,
                         pid_t parent) {
  begin_child(parent);
  ::setpgid(0, 0);
  if (::dup2(streams.input, STDIN_FILENO) >= 0 && ::dup2(streams.output, STDOUT_FILENO) >= 0 &&
      ::dup2(streams.errors, STDERR_FILENO) >= 0)
    ::execvpe(arguments[0], arguments, environment);
  const int reason = errno;
  const ssize_t told = ::write(failure, &reason, sizeof reason);
  ::_exit(told == sizeof reason ? 127 : 126);
}

// The errno of a failed exec, or nothing once the program runs.
std::optional<int> read_failure(const FileDescriptor& from) {
  int reason = 0;
  ssize_t size = 0;
  do size = ::read(from.number(), &reason, sizeof reason);
  while (size < 0 && errno == EINTR);
  return size == sizeof reason ? std::optional(reason) : std::nullopt;
}

}  // namespace

Error no_process(std::string_view action) {
  return {Error::Kind::failed, fmt::format("cannot {}: {}", action, system_reason()),
          "look at the limits on processes and open files: ulimit -u, ulimit -n"};
}

Result<Pipe> open_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return no_process("open a pipe");
  Pipe pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  for (FileDescriptor* end : {&pipe.read, &pipe.write}) {
    *end = above_standard_streams(std::move(*end));
    if (!*end) return no_process("open a pipe");
  }
  return pipe;
}

Result<pid_t> start_program(const std::vector<std::string>& command, const EnvironmentChanges& changes,
                            const ChildStreams& streams) {
  if (command.empty()) throw std::logic_error("start_program without a command");
  std::vector<std::string> arguments = command;
  std::vector<std::string> environment = changed_environment(changes);
  const std::vector<char*> argument_pointers = pointers_for_exec(arguments);
  const std::vector<char*> environment_pointers = pointers_for_exec(environment);
  auto failure = open_pipe();
  if (!failure) return failure.error();

  const pid_t parent = ::getpid();
  pid_t pid = -1;
  {
    const BlockedSignals blocked;
    pid = ::fork();
    if (pid == 0)
      become(argument_pointers.data(), environment_pointers.data(), streams, failure->write.number(), parent);
  }
  if (pid < 0) return no_process("start a process");
  FileDescriptor(std::move(failure->write));
  if (const auto reason = read_failure(failure->read)) {
    reap_until(pid, std::chrono::steady_clock::now() + patience_after_kill);
    errno = *reason;
    return Error{Error::Kind::bad_input, fmt::format("cannot run {}: {}", command.front(), system_reason()),
                 "check the name, or give the path"};
  }
  return pid;
}

void begin_child(pid_t parent) {
  give_every_signal_its_default_effect();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  unblock_every_signal();
}

std::optional<ProcessEnd> reap(pid_t pid) {
  int status = 0;
  pid_t answer = 0;
  do answer = ::waitpid(pid, &status, WNOHANG);
  while (answer < 0 && errno == EINTR);
  if (answer == 0) return std::nullopt;
  ProcessEnd end;
  if (answer < 0) return end;
  if (WIFSIGNALED(status))
    end.signal = WTERMSIG(status);
  else
    end.exit_code = WEXITSTATUS(status);
  return end;
}

std::optional<ProcessEnd> reap_until(pid_t pid, std::chrono::steady_clock::time_point deadline) {
  std::chrono::microseconds pause(50);
  while (true) {
    if (auto end = reap(pid)) return end;
    const auto left =
        std::chrono::duration_cast<std::chrono::microseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return std::nullopt;
    std::this_thread::sleep_for(std::min(pause, left));
    pause = std::min(2 * pause, std::chrono::microseconds(4000));
  }
}

bool has_ended(pid_t pid) {
  siginfo_t facts = {};
  return ::waitid(P_PID, static_cast<id_t>(pid), &facts, WEXITED | WNOHANG | WNOWAIT) != 0 ? errno == ECHILD
                                                                                           : facts.si_pid == pid;
}

}  // namespace muster
