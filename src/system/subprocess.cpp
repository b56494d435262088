#include "system/subprocess.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <thread>

#include "base/duration.hpp"
#include "system/exec_arguments.hpp"
#include "system/file_descriptor.hpp"
#include "system/files.hpp"
#include "system/signals.hpp"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How long a killed process has to disappear; one that hangs in the kernel is left there.
constexpr milliseconds patience_after_kill(1000);

Error cannot(std::string_view action) {
  return {Error::Kind::failed, fmt::format("cannot {}: {}", action, system_reason()),
          "look at the limits on processes and open files: ulimit -u, ulimit -n"};
}

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

// Ends are above 2, so that giving one to a child as its standard output never overwrites another.
Result<Pipe> open_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return cannot("open a pipe");
  Pipe pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  for (FileDescriptor* end : {&pipe.read, &pipe.write}) {
    *end = above_standard_streams(std::move(*end));
    if (!*end) return cannot("open a pipe");
  }
  return pipe;
}

std::vector<std::string> changed_environment(const std::vector<std::pair<std::string, std::string>>& changes) {
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

// In the child: only calls that are safe after a fork of a process with threads.
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

std::optional<ProcessEnd> reap_until(pid_t pid, Clock::time_point deadline) {
  std::chrono::microseconds pause(50);
  while (true) {
    if (auto end = reap(pid)) return end;
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now());
    if (left.count() <= 0) return std::nullopt;
    std::this_thread::sleep_for(std::min(pause, left));
    pause = std::min(2 * pause, std::chrono::microseconds(4000));
  }
}

ProcessEnd kill_and_reap(pid_t pid, pid_t target) {
  ::kill(target, SIGKILL);
  ProcessEnd end = reap_until(pid, Clock::now() + patience_after_kill).value_or(ProcessEnd{{}, SIGKILL});
  end.timed_out = true;
  return end;
}

// Not yet reaped, but dead.
bool has_ended(pid_t pid) {
  siginfo_t facts = {};
  return ::waitid(P_PID, static_cast<id_t>(pid), &facts, WEXITED | WNOHANG | WNOWAIT) != 0 ? errno == ECHILD
                                                                                           : facts.si_pid == pid;
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

struct ChildPipes {
  int input;
  int output;
  int errors;
  int failure;
};

[[noreturn]] void become(char* const* arguments, char* const* environment, const ChildPipes& pipes, pid_t parent) {
  begin_child(parent);
  ::setpgid(0, 0);
  if (::dup2(pipes.input, STDIN_FILENO) >= 0 && ::dup2(pipes.output, STDOUT_FILENO) >= 0 &&
      ::dup2(pipes.errors, STDERR_FILENO) >= 0)
    ::execvpe(arguments[0], arguments, environment);
  const int reason = errno;
  const ssize_t told = ::write(pipes.failure, &reason, sizeof reason);
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

Result<ProcessOutput> run_process(const std::vector<std::string>& command,
                                  const std::vector<std::pair<std::string, std::string>>& environment_changes,
                                  milliseconds limit) {
  if (command.empty()) throw std::logic_error("run_process without a command");
  const Clock::time_point deadline = Clock::now() + limit;
  std::vector<std::string> arguments = command;
  std::vector<std::string> environment = changed_environment(environment_changes);
  const std::vector<char*> argument_pointers = pointers_for_exec(arguments);
  const std::vector<char*> environment_pointers = pointers_for_exec(environment);

  const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing) return cannot("open /dev/null");
  auto output = open_pipe(), errors = open_pipe(), failure = open_pipe();
  for (const auto* pipe : {&output, &errors, &failure})
    if (!*pipe) return pipe->error();

  const pid_t parent = ::getpid();
  pid_t pid = -1;
  {
    const BlockedSignals blocked;
    pid = ::fork();
    if (pid == 0)
      become(argument_pointers.data(), environment_pointers.data(),
             {nothing.number(), output->write.number(), errors->write.number(), failure->write.number()}, parent);
  }
  if (pid < 0) return cannot("start a process");
  for (auto* pipe : {&output, &errors, &failure}) FileDescriptor(std::move((*pipe)->write));

  if (const auto reason = read_failure(failure->read)) {
    reap_until(pid, Clock::now() + patience_after_kill);
    errno = *reason;
    return Error{Error::Kind::bad_input, fmt::format("cannot run {}: {}", command.front(), system_reason()),
                 "check the name, or give the path"};
  }
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
  if (pid < 0) return cannot("start a process");
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
