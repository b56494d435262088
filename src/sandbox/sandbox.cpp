#include "sandbox/sandbox.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <stdexcept>

#include "sandbox/confinement.hpp"
#include "sandbox/user_tasks.hpp"
#include "sandbox/visible_files.hpp"
#include "system/exec_arguments.hpp"
#include "system/files.hpp"
#include "system/signals.hpp"

namespace muster::sandbox {
namespace {

using Clock = std::chrono::steady_clock;

// Descriptors that a child gets lie above all numbers that they may become there.
constexpr int first_free_number = 16;
// How long a keeper that was told to end its program may take until it is ended itself.
constexpr std::chrono::seconds patience(5);
constexpr rlim_t threads_beside_processes = 32;
// The kernel counts all tasks of a user; others of them may start some meanwhile.
constexpr rlim_t tasks_beside_those_of_the_user = 512;

Error could_not(std::string_view action) {
  return {Error::Kind::failed, fmt::format("the sandbox cannot {}: {}", action, system_reason()),
          "look at the limits on processes and open files: ulimit -u, ulimit -n"};
}

FileDescriptor out_of_the_way(FileDescriptor descriptor) {
  return FileDescriptor(::fcntl(descriptor.number(), F_DUPFD_CLOEXEC, first_free_number));
}

struct Ends {
  FileDescriptor ours;
  FileDescriptor theirs;
};

Result<Ends> open_output() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return could_not("open a pipe");
  Ends pipe{FileDescriptor(ends[0]), out_of_the_way(FileDescriptor(ends[1]))};
  ::fcntl(pipe.ours.number(), F_SETFL, O_NONBLOCK);
  if (!pipe.theirs) return could_not("open a pipe");
  return pipe;
}

Result<Ends> open_control() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return could_not("open a socket");
  Ends control{FileDescriptor(ends[0]), out_of_the_way(FileDescriptor(ends[1]))};
  if (!control.theirs) return could_not("open a socket");
  return control;
}

Result<FileDescriptor> hold_input(std::string_view text) {
  FileDescriptor file = out_of_the_way(FileDescriptor(::memfd_create("input", MFD_CLOEXEC)));
  if (!file) return could_not("hold the input of a program");
  while (!text.empty()) {
    const ssize_t size = ::write(file.number(), text.data(), text.size());
    if (size < 0 && errno != EINTR) return could_not("hold the input of a program");
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  }
  ::lseek(file.number(), 0, SEEK_SET);
  return file;
}

bool write_line(const std::string& path, const std::string& line) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file && ::write(file.number(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

// Who the processes in the child's namespaces are outside: this user, or nobody where this is root.
bool give_identity(pid_t child) {
  const bool is_root = ::geteuid() == 0;
  const std::string folder = fmt::format("/proc/{}/", child);
  const auto map = [](uid_t outside) { return fmt::format("{} {} 1", identity_inside, outside); };
  return (is_root || write_line(folder + "setgroups", "deny")) &&
         write_line(folder + "uid_map", map(is_root ? identity_of_nobody : ::geteuid())) &&
         write_line(folder + "gid_map", map(is_root ? identity_of_nobody : ::getegid()));
}

std::vector<ResourceLimit> resource_limits(const Limits& limits, bool own_namespaces) {
  const auto bytes = [](ByteCount count) { return static_cast<rlim_t>(count.value); };
  const uid_t user = ::geteuid() == 0 ? identity_of_nobody : ::geteuid();
  // In namespaces only what runs there is counted: the keeper, and what it started.
  const rlim_t tasks = own_namespaces ? 1 + static_cast<rlim_t>(limits.processes) + threads_beside_processes
                                      : tasks_of(user) + tasks_beside_those_of_the_user;
  return {{RLIMIT_CPU, static_cast<rlim_t>(limits.cpu_time.count())},
          {RLIMIT_AS, bytes(limits.memory)},
          {RLIMIT_FSIZE, bytes(limits.files)},
          {RLIMIT_STACK, bytes(mebibytes(8))},
          {RLIMIT_NOFILE, 64},
          {RLIMIT_NPROC, tasks},
          {RLIMIT_MSGQUEUE, 0},
          {RLIMIT_CORE, 0}};
}

std::vector<std::string> environment_of(const Order& order) {
  std::vector<std::string> entries{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8",
                                   "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1"};
  for (const auto& [name, value] : order.environment) entries.push_back(name + "=" + value);
  return entries;
}

std::string_view to_string(Step step) {
  switch (step) {
    case Step::ended:
      return "end";
    case Step::wait_for_outside:
      return "wait for its parent";
    case Step::take_identity:
      return "become a user without rights";
    case Step::show_files:
      return "show files of the host in namespaces";
    case Step::make_root:
      return "mount file systems in namespaces";
    case Step::start_program:
      return "start a process";
    case Step::restrict_files:
      return "restrict files by Landlock";
    case Step::set_limits:
      return "set limits";
    case Step::filter_calls:
      return "filter system calls by seccomp";
    case Step::execute:
      return "execute the program";
  }
  throw std::logic_error("a step outside its enumeration");
}

Error failed(const Report& report, const std::string& program) {
  errno = report.value;
  if (report.step == Step::execute)
    return {Error::Kind::bad_input, fmt::format("the sandbox cannot run {}: {}", program, system_reason()),
            "check that it exists, is executable, and lies in a folder that the sandbox shows to everybody: /usr or the "
            "folder of the interpreter"};
  return could_not(to_string(report.step));
}

// A started keeper, seen from outside.
class Running {
 public:
  Running(pid_t keeper, FileDescriptor control) : keeper_(keeper), control_(std::move(control)) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    if (keeper_ > 0) end();
  }

  bool permit() { return ::send(control_.number(), "g", 1, MSG_NOSIGNAL) == 1; }
  // The keeper is to end the program, and will be ended itself if it does not.
  void stop() {
    if (kill_at_) return;
    ::send(control_.number(), "s", 1, MSG_NOSIGNAL);
    kill_at_ = Clock::now() + patience;
  }
  void kill_if_due() {
    if (kill_at_ && Clock::now() >= *kill_at_) ::kill(keeper_, SIGKILL);
  }
  int control() const { return control_.number(); }

  // Nothing if the keeper is gone without one.
  std::optional<Report> report() {
    Report report{};
    ssize_t size = 0;
    do size = ::recv(control_.number(), &report, sizeof report, 0);
    while (size < 0 && errno == EINTR);
    if (size != sizeof report) return std::nullopt;
    return report;
  }

  // Once it returns, no process of the sandbox is left.
  void wait() {
    while (::waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
    }
    keeper_ = -1;
  }

 private:
  void end() {
    ::kill(keeper_, SIGKILL);
    wait();
  }

  pid_t keeper_;
  FileDescriptor control_;
  std::optional<Clock::time_point> kill_at_;
};

// What the program writes, up to the limit.
class Output {
 public:
  Output(FileDescriptor output, FileDescriptor errors, ByteCount limit)
      : from_{std::move(output), std::move(errors)}, left_(limit.value) {}

  int number(std::size_t stream) const { return from_[stream].number(); }
  bool is_over() const { return left_ < 0; }

  // False when nothing is there at present.
  bool take(std::size_t stream) {
    if (!from_[stream]) return false;
    std::array<char, 65536> part;
    const ssize_t size = ::read(from_[stream].number(), part.data(), part.size());
    if (size == 0) FileDescriptor(std::move(from_[stream]));
    if (size <= 0) return false;
    text[stream].append(part.data(), static_cast<std::size_t>(std::clamp<std::int64_t>(size, 0, std::max<std::int64_t>(left_, 0))));
    left_ -= size;
    return true;
  }
  void take_rest() {
    for (const std::size_t stream : {0U, 1U})
      while (!is_over() && take(stream)) {
      }
  }

  std::array<std::string, 2> text;

 private:
  std::array<FileDescriptor, 2> from_;
  std::int64_t left_;
};

// Until the program has ended by itself or for its limits.
std::optional<Report> watch(Running& running, Output& output, const FileDescriptor& until, const Limits& limits,
                            std::optional<LimitKind>& exceeded) {
  const Clock::time_point deadline = Clock::now() + limits.wall_time;
  bool stopping = false;
  const auto stop_for = [&](std::optional<LimitKind> reason) {
    if (!stopping) exceeded = reason;
    stopping = true;
    running.stop();
  };
  while (true) {
    std::array<pollfd, 4> waiting{pollfd{running.control(), POLLIN, 0}, pollfd{output.number(0), POLLIN, 0},
                                  pollfd{output.number(1), POLLIN, 0},
                                  pollfd{stopping ? -1 : until.number(), POLLIN, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    ::poll(waiting.data(), waiting.size(), stopping ? 50 : static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    for (const std::size_t stream : {0U, 1U})
      if (waiting[1 + stream].revents != 0) output.take(stream);
    if (output.is_over()) stop_for(LimitKind::output);
    if (waiting[3].revents != 0) stop_for(std::nullopt);
    if (Clock::now() >= deadline) stop_for(LimitKind::wall_time);
    running.kill_if_due();
    if (waiting[0].revents != 0) return running.report();
  }
}

Outcome to_outcome(const Report& report, Output output, std::optional<LimitKind> exceeded, const Limits& limits) {
  Outcome outcome;
  if (WIFSIGNALED(report.value))
    outcome.end.signal = WTERMSIG(report.value);
  else
    outcome.end.exit_code = WEXITSTATUS(report.value);
  outcome.cpu_time = std::chrono::milliseconds(report.cpu_milliseconds);
  outcome.peak_memory = {report.peak_kibibytes << 10};
  outcome.exceeded = exceeded;
  if (!exceeded && output.is_over()) outcome.exceeded = LimitKind::output;
  const bool for_cpu_time =
      outcome.end.signal == SIGXCPU || (outcome.end.signal == SIGKILL && outcome.cpu_time >= limits.cpu_time);
  if (!outcome.exceeded && for_cpu_time) outcome.exceeded = LimitKind::cpu_time;
  outcome.output = std::move(output.text[0]);
  outcome.errors = std::move(output.text[1]);
  return outcome;
}

pid_t fork_into(unsigned long namespaces, const Confinement& confinement) {
  const BlockedSignals blocked;
  const auto pid = static_cast<pid_t>(
      ::syscall(SYS_clone, namespaces | static_cast<unsigned long>(SIGCHLD), nullptr, nullptr, nullptr, nullptr));
  if (pid == 0) keep(confinement);
  return pid;
}

// What each of these settings does is said by the kernel's documentation of user namespaces.
std::string how_to_grant_namespaces() {
  const auto is = [](const char* file, std::string_view value) {
    const auto text = read_file(file);
    return text && text->starts_with(value);
  };
  if (is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"))
    return "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
  if (is("/proc/sys/kernel/unprivileged_userns_clone", "0")) return "sudo sysctl -w kernel.unprivileged_userns_clone=1";
  if (is("/proc/sys/user/max_user_namespaces", "0\n")) return "sudo sysctl -w user.max_user_namespaces=10000";
  return "in a container: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined; elsewhere "
         "Linux 5.14 or newer is needed";
}

}  // namespace

std::string_view to_string(LimitKind limit) {
  switch (limit) {
    case LimitKind::cpu_time:
      return "time on the CPU";
    case LimitKind::wall_time:
      return "time";
    case LimitKind::output:
      return "output";
  }
  throw std::logic_error("a limit outside its enumeration");
}

std::string_view to_string(Isolation isolation) {
  return isolation == Isolation::namespaces ? "namespaces" : "Landlock";
}

Result<Sandbox> Sandbox::open(Isolation isolation) {
  const Sandbox sandbox(isolation);
  if (isolation == Isolation::landlock && landlock_abi() == 0)
    return Error{Error::Kind::refused, "this kernel has no Landlock, or it is switched off",
                 "start it with lsm=landlock,... among its parameters (Linux 5.13 or newer)"};
  Order trial;
  trial.command = {"/bin/sh", "-c", ":"};
  const auto outcome = sandbox.run(std::move(trial), {});
  const std::string remedy = isolation == Isolation::namespaces ? how_to_grant_namespaces() : "use namespaces";
  if (!outcome) return Error{Error::Kind::refused, outcome.error().what, remedy};
  if (outcome->end.exit_code != 0)
    return Error{Error::Kind::refused,
                 fmt::format("a shell in the sandbox did nothing, and ended with {}: {}",
                             describe(outcome->end, Limits{}.wall_time), outcome->errors),
                 remedy};
  return sandbox;
}

Result<Sandbox> Sandbox::open() {
  auto strong = open(Isolation::namespaces);
  if (strong) return strong;
  auto fallback = open(Isolation::landlock);
  if (fallback) return fallback;
  return Error{Error::Kind::refused,
               fmt::format("programs that nobody trusts cannot be confined here: {}; {}", strong.error().what,
                           fallback.error().what),
               strong.error().remedy};
}

Grants probe() {
  const auto of = [](Isolation isolation) -> Result<void> {
    auto sandbox = Sandbox::open(isolation);
    if (sandbox) return {};
    return sandbox.error();
  };
  return {of(Isolation::namespaces), of(Isolation::landlock)};
}

Result<Outcome> Sandbox::run(Order order, const Limits& limits) const {
  if (order.command.empty()) throw std::logic_error("an order without a command");
  const bool own_namespaces = isolation_ == Isolation::namespaces;
  if (limits.processes > 1 && !own_namespaces)
    return Error{Error::Kind::refused, "a program confined by Landlock cannot start others", how_to_grant_namespaces()};
  const VisibleFiles files(order.visible);
  if (files.paths().size() > most_visible_paths)
    return bad_input(fmt::format("a sandbox with {} folders", files.paths().size()),
                     fmt::format("show at most {}", most_visible_paths));

  auto control = open_control();
  auto input = hold_input(order.input);
  auto output = open_output(), errors = open_output();
  if (!control) return control.error();
  if (!input) return input.error();
  if (!output) return output.error();
  if (!errors) return errors.error();
  for (FileDescriptor& handed : order.handed) {
    handed = out_of_the_way(std::move(handed));
    if (!handed) return could_not("hand over a descriptor");
  }
  std::vector<int> streams{input->number(), output->theirs.number(), errors->theirs.number()};
  for (const FileDescriptor& handed : order.handed) streams.push_back(handed.number());
  if (streams.size() > first_free_number) throw std::logic_error("an order with too many descriptors");

  const int abi = own_namespaces ? 0 : landlock_abi();
  SystemCallFilter filter =
      make_filter({own_namespaces, own_namespaces && limits.processes > 1, !own_namespaces && abi < 3});
  std::vector<std::string> environment = environment_of(order);
  const std::vector<char*> arguments = pointers_for_exec(order.command);
  const std::vector<char*> variables = pointers_for_exec(environment);
  const std::vector<ResourceLimit> bounds = resource_limits(limits, own_namespaces);
  const std::string files_size = std::to_string(limits.files.value);
  const Confinement confinement{own_namespaces, abi,  files.paths(),       files.links(),           files_size.c_str(),
                                bounds,         &filter, arguments.data(), variables.data(),
                                control->theirs.number(), streams, ::geteuid() == 0};

  constexpr unsigned long all_namespaces =
      CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
  const pid_t keeper = fork_into(own_namespaces ? all_namespaces : 0, confinement);
  if (keeper < 0) return could_not(own_namespaces ? "make namespaces" : "start a process");
  Running running(keeper, std::move(control->ours));
  for (Ends* ends : {&*control, &*output, &*errors}) FileDescriptor(std::move(ends->theirs));
  order.handed.clear();
  if (own_namespaces && !give_identity(keeper)) return could_not("name the user of namespaces");
  if (!running.permit()) return could_not("speak to its keeper");

  Output texts(std::move(output->ours), std::move(errors->ours), limits.output);
  std::optional<LimitKind> exceeded;
  const auto report = watch(running, texts, order.until, limits, exceeded);
  if (!report)
    return Error{Error::Kind::failed, "the keeper of a sandbox was killed",
                 "look for a shortage of memory: dmesg | tail; then try again"};
  running.wait();
  texts.take_rest();
  if (report->step != Step::ended) return failed(*report, order.command.front());
  return to_outcome(*report, std::move(texts), exceeded, limits);
}

}  // namespace muster::sandbox
