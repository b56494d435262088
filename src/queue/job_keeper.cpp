#include "queue/job_keeper.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>

#include "system/exec_arguments.hpp"
#include "system/files.hpp"
#include "system/process.hpp"
#include "system/signals.hpp"
#include "launch/keeper/detached_process.hpp"
#include "launch/keeper/descendants.hpp"
#include "launch/keeper/keeper_mark.hpp"
#include "launch/keeper/oom_kills.hpp"
#include "queue/attempt_file.hpp"
#include "queue/oom_verdict.hpp"

namespace muster::queue {
namespace {

using Clock = std::chrono::steady_clock;
using schedule::HowEnded;

void close_all_but(std::vector<int> kept) {
  std::ranges::sort(kept);
  unsigned int from = STDERR_FILENO + 1;
  for (const int number : kept) {
    const auto next = static_cast<unsigned int>(number);
    if (next < from) continue;
    if (next > from) ::close_range(from, next - 1, 0);
    from = next + 1;
  }
  ::close_range(from, ~0U, 0);
}

class JobKeeper {
 public:
  explicit JobKeeper(KeeperOrder order) : order_(std::move(order)) {}

  void run() {
    std::optional<NotStarted> hindrance = become_keeper();
    if (!hindrance && order_.grant.before_start)
      if (const auto ready = order_.grant.before_start(); !ready)
        hindrance = NotStarted{ready.error().what, NotStarted::Cause::gpus};
    if (hindrance) {
      // Without a line that says it began. If this cannot be written either, an empty file means the same.
      tell(ended_line(*hindrance));
      return;
    }
    if (!tell(begun_line(identity_))) return;  // it must not begin: there would be no record that it did
    const AttemptEnd end = keep();
    end_the_rest();
    if (order_.grant.lease) order_.grant.lease->settle();
    tell_end(ended_line(end));
  }

 private:
  std::optional<NotStarted> become_keeper() {
    ::setsid();
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    // A keeper that ends with its parent serves only that one: whatever ends the parent may end it, too.
    ::prctl(PR_SET_NAME, order_.ends_with ? "muster-trial" : launch::detached_job);
    give_every_signal_its_default_effect();
    if (order_.ends_with) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (is_alone()) ::kill(::getpid(), SIGTERM);  // blocked until the command is waited for
    std::vector<int> kept{order_.attempt.number()};
    if (order_.grant.lease)
      for (const int lock : order_.grant.lease->descriptors()) kept.push_back(lock);
    std::ranges::copy(order_.locks, std::back_inserter(kept));
    close_all_but(std::move(kept));
    if (const auto status = read_process_status(::getpid())) identity_ = status->identity;
    const FileDescriptor log(::open(order_.log.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!log || !nothing) return NotStarted::because(fmt::format("cannot write {}", order_.log.string()), errno);
    log_began_ = ::lseek(log.number(), 0, SEEK_END);
    ::dup2(nothing.number(), STDIN_FILENO);
    ::dup2(log.number(), STDOUT_FILENO);
    ::dup2(log.number(), STDERR_FILENO);
    hand_on_locks();
    return std::nullopt;
  }

  bool is_alone() const { return order_.ends_with && ::getppid() != *order_.ends_with; }

  // The command holds the locks too: whatever happens to this process, its job is not considered ended. It gets them
  // under high numbers, since scripts use the low ones themselves (exec 9>file).
  void hand_on_locks() const {
    constexpr int out_of_the_way = 200;
    std::vector<int> locks{order_.attempt.number()};
    if (order_.grant.lease) std::ranges::copy(order_.grant.lease->descriptors(), std::back_inserter(locks));
    std::ranges::copy(order_.locks, std::back_inserter(locks));
    for (const int lock : locks) {
      const bool handed_on = ::fcntl(lock, F_DUPFD, out_of_the_way) >= 0;
      ::fcntl(lock, F_SETFD, handed_on ? FD_CLOEXEC : 0);
    }
  }

  AttemptEnd keep() {
    sigset_t pending;
    if (::sigpending(&pending) == 0 && ::sigismember(&pending, SIGTERM) == 1)
      return CommandEnd{HowEnded::killed, SIGTERM};  // stopped while it waited for memory
    launch::set_mark(order_.environment, launch::mark_of(identity_));
    const auto started = start_command();
    if (const auto* hindrance = std::get_if<NotStarted>(&started)) return *hindrance;
    const CommandEnd end = wait_for(std::get<pid_t>(started));
    const bool is_ours = was_stopped_ || (end.how == HowEnded::exited && end.code == 0);
    return is_ours ? end : with_memory_told(end, launch::oom_kills() > order_.oom_kills, last_words());
  }

  // The last output of this attempt.
  std::string last_words() const {
    constexpr off_t kept = 64 * 1024;
    const off_t end = ::lseek(STDOUT_FILENO, 0, SEEK_END);
    const off_t begin = std::max(log_began_, end - kept);
    std::string text(static_cast<std::size_t>(std::max<off_t>(end - begin, 0)), '\0');
    const ssize_t got = ::pread(STDOUT_FILENO, text.data(), text.size(), begin);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return text;
  }

  // One write, to an existing file: a partial write is only seen after a crash of the machine. If a full disk took
  // only a part, that is cut off again: another attempt may add its lines to the same file.
  bool tell(const std::string& line) const {
    const ssize_t written = ::write(order_.attempt.number(), line.data(), line.size());
    if (written == static_cast<ssize_t>(line.size())) return true;
    const int reason = errno;
    if (written > 0) {
      const off_t size = ::lseek(order_.attempt.number(), -written, SEEK_CUR);
      static_cast<void>(!::ftruncate(order_.attempt.number(), size));
    }
    errno = written > 0 ? ENOSPC : reason;
    return false;
  }

  // An end that is not recorded counts as a kill. A full disk may have space again.
  void tell_end(const std::string& line) const {
    constexpr int tries = 30;
    for (int left = tries; left > 0; --left) {
      if (tell(line)) return;
      const timespec pause{1, 0};
      ::nanosleep(&pause, nullptr);
    }
    const std::string text = fmt::format("muster: cannot write down how this job went: {}\n", system_reason());
    static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
  }

  std::variant<pid_t, NotStarted> start_command() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return NotStarted::because("cannot make a pipe", errno);
    const FileDescriptor reader(ends[0]);
    FileDescriptor writer(ends[1]);
    std::vector<char*> arguments = pointers_for_exec(order_.command);
    std::vector<char*> environment = pointers_for_exec(order_.environment);
    const pid_t keeper = ::getpid();
    char** own_environment = std::exchange(::environ, environment.data());  // PATH is that of the job
    // Without a copy of this process, which may be large: it is suspended until the child runs its program.
    const pid_t child = ::vfork();
    if (child == 0) {
      ::setsid();
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != keeper) ::_exit(127);
      unblock_every_signal();
      ::umask(order_.umask);
      if (::chdir(order_.folder.c_str()) == 0) ::execvpe(arguments[0], arguments.data(), environment.data());
      const int reason = errno;
      [[maybe_unused]] const auto told = ::write(writer.number(), &reason, sizeof reason);
      ::_exit(127);
    }
    const int fork_failure = errno;
    ::environ = own_environment;
    if (child < 0) return NotStarted::because("cannot start a process", fork_failure);
    writer = FileDescriptor();
    int reason = 0;
    if (::read(reader.number(), &reason, sizeof reason) != static_cast<ssize_t>(sizeof reason)) return child;
    ::waitpid(child, nullptr, 0);
    return NotStarted::because(fmt::format("cannot run {} in {}", order_.command.front(), order_.folder), reason);
  }

  // Signals are blocked, and waited for here: SIGCHLD when a child ended, SIGTERM when the job should end.
  CommandEnd wait_for(pid_t command) {
    sigset_t awaited;
    ::sigemptyset(&awaited);
    ::sigaddset(&awaited, SIGCHLD);
    ::sigaddset(&awaited, SIGTERM);
    std::optional<Clock::time_point> kill_at;
    while (true) {
      if (const auto end = reap(command)) return *end;
      timespec pause{1, 0};
      if (kill_at) pause = {0, 20'000'000};
      const int signal = kill_at ? ::sigtimedwait(&awaited, nullptr, &pause) : ::sigwaitinfo(&awaited, nullptr);
      if (signal == SIGTERM && !kill_at) {
        kill_at = Clock::now() + order_.grace;
        was_stopped_ = true;
        ::kill(-command, SIGTERM);
        ::kill(-command, SIGCONT);
      }
      if (kill_at && (Clock::now() >= *kill_at || is_alone())) ::kill(-command, SIGKILL);
    }
  }

  static std::optional<CommandEnd> reap(pid_t command) {
    std::optional<CommandEnd> end;
    int status = 0;
    for (pid_t ended = ::waitpid(-1, &status, WNOHANG); ended > 0; ended = ::waitpid(-1, &status, WNOHANG)) {
      if (ended != command) continue;
      if (WIFSIGNALED(status))
        end = CommandEnd{HowEnded::killed, WTERMSIG(status)};
      else
        end = CommandEnd{HowEnded::exited, WEXITSTATUS(status)};
    }
    return end;
  }

  // What the command started and left behind is killed, until nothing is left except what serves others too.
  static void end_the_rest() {
    while (true) {
      const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
      if (ended > 0) continue;
      if (ended < 0 && errno == ECHILD) return;
      bool is_left = false;
      for (const pid_t child : launch::children_of_this_process())
        if (!launch::is_detached(child)) {
          is_left = true;
          launch::kill_child_with_group(child);
        }
      if (!is_left) return;
      timespec pause{0, 2'000'000};
      ::nanosleep(&pause, nullptr);
    }
  }

  KeeperOrder order_;
  ProcessIdentity identity_;
  off_t log_began_ = 0;
  bool was_stopped_ = false;
};

}  // namespace

Result<pid_t> start_keeper(KeeperOrder order) {
  const BlockedSignals blocked;
  const pid_t child = ::fork();
  if (child < 0)
    return Error{Error::Kind::failed, fmt::format("cannot start a process: {}", system_reason()),
                 "ulimit -u shows how many you may have"};
  if (child > 0) return child;
  try {
    JobKeeper(std::move(order)).run();
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

}  // namespace muster::queue
