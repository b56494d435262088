#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "sandbox/confinement.hpp"
#include "system/signals.hpp"

namespace muster::sandbox {
namespace {

void send(int control, const Report& report) { ::send(control, &report, sizeof report, MSG_NOSIGNAL); }

// Does nothing for a step that succeeded.
void leave_if(int failure, Step step, int control) {
  if (failure == 0) return;
  send(control, {step, failure, 0, 0});
  ::_exit(1);
}

int failure_if(bool failed) { return failed ? errno : 0; }

void close_range(unsigned first, unsigned last) { ::syscall(SYS_close_range, first, last, 0); }

void close_all_but(int number) {
  close_range(0, static_cast<unsigned>(number) - 1);
  close_range(static_cast<unsigned>(number) + 1, ~0U);
}

// Descriptors that the process outside has open are none of the sandbox's: locks are held by whoever has them open.
void close_foreign(const Confinement& confinement) {
  const auto is_ours = [&](int number) {
    if (number == confinement.control) return true;
    for (const int stream : confinement.streams)
      if (stream == number) return true;
    return false;
  };
  int first = 0, highest = confinement.control;
  for (const int stream : confinement.streams) highest = stream > highest ? stream : highest;
  for (int number = 0; number <= highest; ++number) {
    if (!is_ours(number)) continue;
    if (number > first) close_range(static_cast<unsigned>(first), static_cast<unsigned>(number) - 1);
    first = number + 1;
  }
  close_range(static_cast<unsigned>(first), ~0U);
}

// System calls of this thread alone: the library's functions would ask threads that a fork does not have.
int become(uid_t identity, bool leaves_groups) {
  if (leaves_groups && ::syscall(SYS_setgroups, 0, nullptr) != 0) return errno;
  if (::syscall(SYS_setresgid, identity, identity, identity) != 0) return errno;
  return failure_if(::syscall(SYS_setresuid, identity, identity, identity) != 0);
}

int give_up_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  return failure_if(::syscall(SYS_capset, &header, none) != 0);
}

int take_streams(std::span<const int> streams) {
  for (std::size_t i = 0; i < streams.size(); ++i)
    if (::dup2(streams[i], static_cast<int>(i)) < 0) return errno;
  return 0;
}

int set_limits(std::span<const ResourceLimit> limits) {
  for (const ResourceLimit& limit : limits) {
    const auto resource = static_cast<__rlimit_resource>(limit.resource);
    rlimit both{};
    if (::getrlimit(resource, &both) != 0) return errno;
    // A program may ignore the first limit of CPU time; the second one kills.
    both.rlim_max = std::min(both.rlim_max, limit.resource == RLIMIT_CPU ? limit.value + 1 : limit.value);
    both.rlim_cur = std::min(both.rlim_max, limit.value);
    if (::setrlimit(resource, &both) != 0) return errno;
  }
  return 0;
}

[[noreturn]] void become_program(const Confinement& confinement, pid_t keeper) {
  const int control = confinement.control;
  ::setsid();
  give_every_signal_its_default_effect();
  leave_if(take_streams(confinement.streams), Step::execute, control);
  close_range(static_cast<unsigned>(confinement.streams.size()), static_cast<unsigned>(control) - 1);
  close_range(static_cast<unsigned>(control) + 1, ~0U);
  ::umask(022);
  leave_if(failure_if(::chdir(confinement.own_namespaces ? "/tmp" : "/") != 0), Step::execute, control);
  if (!confinement.own_namespaces) {
    if (confinement.becomes_nobody) leave_if(become(identity_of_nobody, true), Step::take_identity, control);
    // After the change of user, which would take it back.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    leave_if(::getppid() == keeper ? 0 : ESRCH, Step::start_program, control);
    leave_if(restrict_files(confinement.landlock_abi, confinement.visible), Step::restrict_files, control);
  }
  leave_if(give_up_capabilities(), Step::take_identity, control);
  leave_if(set_limits(confinement.limits), Step::set_limits, control);
  unblock_every_signal();
  write_own_pid(*confinement.filter, static_cast<pid_t>(::syscall(SYS_getpid)));
  leave_if(apply_filter(*confinement.filter), Step::filter_calls, control);
  ::execve(confinement.arguments[0], confinement.arguments, confinement.environment);
  leave_if(errno, Step::execute, control);
  ::_exit(1);
}

// Takes in every process that has ended; true once the program is among them.
bool reap(pid_t program, int control) {
  int status = 0;
  rusage usage{};
  while (true) {
    const pid_t pid = ::wait4(-1, &status, WNOHANG, &usage);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) return false;
    if (pid != program) continue;
    const auto milliseconds = [](const timeval& time) { return time.tv_sec * 1000 + time.tv_usec / 1000; };
    send(control,
         {Step::ended, status, milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime), usage.ru_maxrss});
    return true;
  }
}

[[noreturn]] void watch(pid_t program, int control) {
  sigset_t of_children;
  ::sigemptyset(&of_children);
  ::sigaddset(&of_children, SIGCHLD);
  const int children = ::signalfd(-1, &of_children, SFD_CLOEXEC | SFD_NONBLOCK);
  std::array<pollfd, 2> waiting{pollfd{children, POLLIN, 0}, pollfd{control, POLLIN, 0}};
  while (!reap(program, control)) {
    ::poll(waiting.data(), waiting.size(), 100);
    signalfd_siginfo signal;
    while (::read(children, &signal, sizeof signal) > 0) {
    }
    if (waiting[1].revents == 0) continue;
    ::kill(program, SIGKILL);
    waiting[1].fd = -1;
  }
  ::_exit(0);  // as the first process of its namespace it takes all others along
}

}  // namespace

void keep(const Confinement& confinement) {
  const int control = confinement.control;
  give_every_signal_its_default_effect();
  ::setsid();
  close_foreign(confinement);
  char permission = 0;
  leave_if(::recv(control, &permission, 1, 0) == 1 ? 0 : EPIPE, Step::wait_for_outside, control);
  ::prctl(PR_SET_DUMPABLE, 0);  // its memory is a copy of that of the process outside
  if (confinement.own_namespaces) {
    std::array<int, most_visible_paths> trees{};
    const std::span<int> used = std::span(trees).first(confinement.visible.size());
    leave_if(open_visible(confinement.visible, used), Step::show_files, control);
    leave_if(become(identity_inside, confinement.becomes_nobody), Step::take_identity, control);
    leave_if(make_root(confinement, used), Step::make_root, control);
  }
  const pid_t keeper = ::getpid();
  const auto program = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (program == 0) become_program(confinement, keeper);
  leave_if(failure_if(program < 0), Step::start_program, control);
  close_all_but(control);
  watch(program, control);
}

}  // namespace muster::sandbox
