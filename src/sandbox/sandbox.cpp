#include "sandbox/sandbox.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <stdexcept>

#include "sandbox/confinement.hpp"
#include "sandbox/running.hpp"
#include "sandbox/user_tasks.hpp"
#include "sandbox/visible_files.hpp"
#include "system/exec_arguments.hpp"
#include "system/files.hpp"
#include "system/signals.hpp"

namespace muster::sandbox {
namespace {

// Descriptors that a child gets lie above all numbers that they may become there.
constexpr int first_free_number = 16;
constexpr rlim_t threads_beside_processes = 32;
// The kernel counts all tasks of a user; others of them may start some meanwhile.
constexpr rlim_t tasks_beside_those_of_the_user = 512;

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

constexpr unsigned long all_namespaces =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

pid_t fork_into(unsigned long namespaces, const Confinement& confinement) {
  const BlockedSignals blocked;
  const auto pid = static_cast<pid_t>(
      ::syscall(SYS_clone, namespaces | static_cast<unsigned long>(SIGCHLD), nullptr, nullptr, nullptr, nullptr));
  if (pid == 0) keep(confinement);
  return pid;
}

// All that a child process is given, above the numbers that it gives to the program.
struct Streams {
  FileDescriptor input;
  Ends output, errors, control;
  std::vector<FileDescriptor> handed;

  std::vector<int> numbers() const {
    std::vector<int> numbers{input.number(), output.theirs.number(), errors.theirs.number()};
    for (const FileDescriptor& one : handed) numbers.push_back(one.number());
    return numbers;
  }
  void close_theirs() {
    for (FileDescriptor* one : {&input, &output.theirs, &errors.theirs, &control.theirs})
      FileDescriptor(std::move(*one));
    handed.clear();
  }
};

Result<Streams> open_streams(Order& order) {
  auto input = hold_input(order.input);
  auto output = open_output(), errors = open_output(), control = open_control();
  if (!input) return input.error();
  for (const auto* ends : {&output, &errors, &control})
    if (!*ends) return ends->error();
  Streams streams{std::move(*input), std::move(*output), std::move(*errors), std::move(*control), {}};
  for (FileDescriptor& handed : order.handed) {
    streams.handed.push_back(out_of_the_way(std::move(handed)));
    if (!streams.handed.back()) return could_not("hand over a descriptor");
  }
  if (streams.numbers().size() > first_free_number) throw std::logic_error("an order with too many descriptors");
  return streams;
}

// Starts the keeper of the order's program.
Result<pid_t> start(Order& order, const Limits& limits, bool own_namespaces, const Streams& streams) {
  const VisibleFiles files(order.visible);
  if (files.paths().size() > most_visible_paths)
    return bad_input(fmt::format("a sandbox with {} folders", files.paths().size()),
                     fmt::format("show at most {}", most_visible_paths));
  const int abi = own_namespaces ? 0 : landlock_abi();
  SystemCallFilter filter =
      make_filter({own_namespaces, own_namespaces && limits.processes > 1, !own_namespaces && abi < 3});
  std::vector<std::string> environment = environment_of(order);
  const std::vector<char*> arguments = pointers_for_exec(order.command);
  const std::vector<char*> variables = pointers_for_exec(environment);
  const std::vector<ResourceLimit> bounds = resource_limits(limits, own_namespaces);
  const std::vector<int> numbers = streams.numbers();
  const std::string files_size = std::to_string(limits.files.value);
  Confinement confinement{};
  confinement.own_namespaces = own_namespaces;
  confinement.landlock_abi = abi;
  confinement.visible = files.paths();
  confinement.links = files.links();
  confinement.files_size = files_size.c_str();
  confinement.limits = bounds;
  confinement.filter = &filter;
  confinement.arguments = arguments.data();
  confinement.environment = variables.data();
  confinement.control = streams.control.theirs.number();
  confinement.streams = numbers;
  confinement.becomes_nobody = ::geteuid() == 0;
  const pid_t keeper = fork_into(own_namespaces ? all_namespaces : 0, confinement);
  if (keeper < 0) return could_not(own_namespaces ? "make namespaces" : "start a process");
  return keeper;
}

}  // namespace

Result<Outcome> Sandbox::run(Order order, const Limits& limits) const {
  if (order.command.empty()) throw std::logic_error("an order without a command");
  const bool own_namespaces = isolation_ == Isolation::namespaces;
  if (limits.processes > 1 && !own_namespaces)
    return Error{Error::Kind::refused, "a program confined by Landlock cannot start others",
                 "muster doctor says why this machine grants no namespaces"};
  auto streams = open_streams(order);
  if (!streams) return streams.error();
  const auto keeper = start(order, limits, own_namespaces, *streams);
  if (!keeper) return keeper.error();
  Running running(*keeper, std::move(streams->control.ours));
  streams->close_theirs();
  if (own_namespaces && !give_identity(*keeper)) return could_not("name the user of namespaces");
  if (!running.permit()) return could_not("speak to its keeper");

  Output output(std::move(streams->output.ours), std::move(streams->errors.ours), limits.output);
  const Watched watched = watch(running, output, order.until, limits);
  if (!watched.report)
    return Error{Error::Kind::failed, "the keeper of a sandbox was killed",
                 "look for a shortage of memory: dmesg | tail; then try again"};
  running.wait();
  output.take_rest();
  if (watched.report->step != Step::ended) return to_error(*watched.report, order.command.front());
  return to_outcome(watched, std::move(output), limits);
}

}  // namespace muster::sandbox
