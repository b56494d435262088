#include "launch/keeper/worker_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string_view>

#include "system/exec_arguments.hpp"
#include "system/files.hpp"
#include "system/process_handle.hpp"
#include "system/signals.hpp"
#include "base/text.hpp"

namespace muster::launch {
namespace {

// Where a program of this name may be, by the PATH of the environment it will have.
std::vector<std::string> candidates_for(const std::string& program, const std::vector<std::string>& environment) {
  if (program.find('/') != std::string::npos) return {program};
  constexpr std::string_view name = "PATH=";
  std::string path = "/bin:/usr/bin";
  for (const std::string& entry : environment)
    if (entry.starts_with(name)) path = entry.substr(name.size());
  std::vector<std::string> candidates;
  for (const std::string& folder : split(path, ':'))
    candidates.push_back(folder.empty() ? program : folder + "/" + program);
  return candidates;
}

class CpuSet {
 public:
  explicit CpuSet(const std::vector<int>& cpus) {
    if (cpus.empty()) return;
    const auto count = static_cast<std::size_t>(std::max(*std::ranges::max_element(cpus), 0)) + 1;
    size_ = CPU_ALLOC_SIZE(count);
    words_.resize(size_ / sizeof(cpu_set_t) + 1);
    for (const int cpu : cpus)
      if (cpu >= 0) CPU_SET_S(static_cast<std::size_t>(cpu), size_, words_.data());
  }
  bool apply() const { return words_.empty() || ::sched_setaffinity(0, size_, words_.data()) == 0; }

 private:
  std::size_t size_ = 0;
  std::vector<cpu_set_t> words_;
};

// What the child says when it cannot become the program. Nothing is said by the end of its socket, at exec.
enum class Step : int { restrict_cpus, connect_streams, run };
struct Failure {
  Step step = Step::run;
  int reason = 0;
};

// Everything the child needs, made before the fork.
struct Image {
  std::vector<std::string> candidates;
  std::vector<char*> arguments;
  std::vector<char*> environment;
  CpuSet cpus;
  int output;
  int errors;
  int beginning;
  pid_t keeper;
};

// Where a program is found in several folders, the one that has it but cannot run it is worth reporting.
int run_first_of(const Image& image) {
  int reason = ENOENT;
  for (const std::string& candidate : image.candidates) {
    ::execve(candidate.c_str(), image.arguments.data(), image.environment.data());
    if (errno != ENOENT && errno != ENOTDIR) reason = errno;
    if (reason != ENOENT && reason != EACCES) break;
  }
  return reason;
}

Failure try_to_become(const Image& image) {
  if (!image.cpus.apply()) return {Step::restrict_cpus, errno};
  if (::dup2(image.output, STDOUT_FILENO) < 0 || ::dup2(image.errors, STDERR_FILENO) < 0)
    return {Step::connect_streams, errno};
  // The keeper gave every signal its default effect, and exec keeps that.
  unblock_every_signal();
  return {Step::run, run_first_of(image)};
}

[[noreturn]] void become_worker(const Image& image) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != image.keeper) ::_exit(127);
  ::setsid();
  char word = 0;
  if (::read(image.beginning, &word, 1) != 1) ::_exit(127);
  const Failure failure = try_to_become(image);
  const ssize_t told = ::write(image.beginning, &failure, sizeof failure);
  ::_exit(told == sizeof failure ? 127 : 126);
}

Error cannot_do(std::string_view action) {
  return {Error::Kind::failed, fmt::format("cannot {}: {}", action, system_reason()),
          "look at the limits on processes and open files: ulimit -u, ulimit -n"};
}

}  // namespace

WorkerProcess::WorkerProcess(const StartWorker& order, pid_t pid, FileDescriptor handle, FileDescriptor beginning)
    : local_rank_(order.local_rank),
      program_(order.command.front()),
      pid_(pid),
      handle_(std::move(handle)),
      beginning_(std::move(beginning)) {}

Result<WorkerProcess> WorkerProcess::start(const StartWorker& order, const ControlGroup* group) {
  if (order.command.empty()) return Error{Error::Kind::bad_input, "there is no command to run", ""};
  if (!order.output || !order.errors) {
    errno = EMFILE;
    return cannot_do("take over its output");
  }
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return cannot_do("open a pair of sockets");
  FileDescriptor ours = FileDescriptor(ends[0]);
  const FileDescriptor theirs = above_standard_streams(FileDescriptor(ends[1]));
  if (!theirs) return cannot_do("open a pair of sockets");

  std::vector<std::string> arguments = order.command;
  std::vector<std::string> environment = order.environment;
  const Image image{candidates_for(order.command.front(), environment),
                    pointers_for_exec(arguments),
                    pointers_for_exec(environment),
                    CpuSet(order.cpus),
                    order.output.number(),
                    order.errors.number(),
                    theirs.number(),
                    ::getpid()};
  pid_t pid = group == nullptr ? -1 : group->fork_inside();
  if (pid < 0) pid = ::fork();
  if (pid == 0) become_worker(image);
  if (pid < 0) return cannot_do("start a process");
  FileDescriptor handle = open_process(pid);
  if (!handle) {
    const Error error = cannot_do("watch a process");
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return error;
  }
  return WorkerProcess(order, pid, std::move(handle), std::move(ours));
}

void WorkerProcess::proceed() const { ::send(beginning_.number(), "x", 1, MSG_NOSIGNAL); }

std::optional<std::string> WorkerProcess::begun() {
  const FileDescriptor beginning = std::move(beginning_);
  Failure failure;
  if (::recv(beginning.number(), &failure, sizeof failure, MSG_DONTWAIT) != sizeof failure) return std::nullopt;
  failed_ = true;
  errno = failure.reason;
  switch (failure.step) {
    case Step::restrict_cpus:
      return fmt::format("cannot restrict {} to its CPUs: {}", program_, system_reason());
    case Step::connect_streams:
      return fmt::format("cannot connect the output of {}: {}", program_, system_reason());
    case Step::run:
      break;
  }
  return fmt::format("cannot run {}: {}", program_, system_reason());
}

void WorkerProcess::signal(int signal) const {
  // Its number is not given to others before we have reaped it. It may not have made its group yet.
  if (::kill(-pid_, signal) != 0) signal_process(handle_, signal);
}

void WorkerProcess::note_signal() {
  siginfo_t facts{};
  const bool known = ::waitid(P_PID, static_cast<id_t>(pid_), &facts, WEXITED | WNOHANG | WNOWAIT) == 0;
  if (known && facts.si_pid == 0) signalled_ = true;
}

std::optional<ProcessEnd> WorkerProcess::reap() const {
  siginfo_t facts{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &facts, WEXITED | WNOHANG) != 0 || facts.si_pid != pid_)
    return std::nullopt;
  ProcessEnd end;
  (facts.si_code == CLD_EXITED ? end.exit_code : end.signal) = facts.si_status;
  return end;
}

}  // namespace muster::launch
