#include "launch/keeper/keeper_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <vector>

#include "system/open_descriptors.hpp"
#include "system/signals.hpp"
#include "launch/keeper/detached_process.hpp"
#include "launch/keeper/descendants.hpp"
#include "launch/keeper/keeper_mark.hpp"

namespace muster::launch {
namespace {

using std::chrono::milliseconds;

// Without exec the kernel closes nothing: what the launcher wanted closed in its children (sockets, logs) is closed
// here. The rest (leases, the standard streams) stays, for the ranks.
void close_what_exec_would_close(const std::vector<int>& kept) {
  for (const int number : open_descriptors()) {
    if (std::ranges::find(kept, number) != kept.end()) continue;
    if ((::fcntl(number, F_GETFD) & FD_CLOEXEC) != 0) ::close(number);
  }
}

FileDescriptor watch_for_dead_children() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGCHLD);
  return FileDescriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

bool asks_for_an_end(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGQUIT || signal == SIGHUP;
}

constexpr unsigned int worker_bits = 32;

}  // namespace

KeeperProcess::KeeperProcess(KeeperConnection connection, FileDescriptor launcher, ControlGroups groups)
    : connection_(std::move(connection)), launcher_(std::move(launcher)) {
  // A session of its own: what a terminal or a shell sends to the launcher's group does not come here. Every signal is
  // blocked, and has its default effect, so that ranks have it too.
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "muster-keeper");
  give_every_signal_its_default_effect();
  close_what_exec_would_close({connection_.descriptor(), launcher_.number()});
  child_signal_ = watch_for_dead_children();
  events_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!watch(connection_.descriptor(), EPOLLIN, Source::orders) ||
      !watch(launcher_.number(), EPOLLIN, Source::launcher) ||
      !watch(child_signal_.number(), EPOLLIN, Source::child_signal))
    throw std::runtime_error("the keeper cannot watch");  // ends it; the launcher sees that it is lost
  if (const auto status = read_process_status(::getpid())) identity_ = status->identity;
  mark_ = mark_of(identity_);
  if (groups == ControlGroups::where_allowed) group_ = ControlGroup::create(identity_);
}

bool KeeperProcess::watch(int descriptor, std::uint32_t events, Source source, pid_t worker) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = (static_cast<std::uint64_t>(source) << worker_bits) | static_cast<std::uint32_t>(worker);
  return ::epoll_ctl(events_.number(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

void KeeperProcess::run() {
  while (true) {
    handle_events();
    reap_orphans();
    advance_ending();
    if (launcher_gone_ && !ending_) break;
    send();
  }
  if (group_) group_->remove();
}

// Note [Order of exits] Which rank ended first follows from the order in which epoll hands out the handles of the
// ranks, and that is the order in which the kernel saw them end, however late this process looks (it may have been
// stopped, or starved):
//   - a process that ends wakes those who wait on its handle while the kernel holds the one lock under which all
//     processes end, so these wake-ups have an order, and it is that of the ends;
//   - each wake-up appends the handle to epoll's list of ready ones. While a part of that list is being handed out,
//     wake-ups gather in a second list, which is appended in its order of arrival afterwards;
//   - handles are watched edge-triggered: one that was handed out does not return to the list by itself;
//   - a rank runs only once its handle is watched (WorkerProcess::proceed), so none ends unseen before.
// waitid(P_ALL) would tell them in the order in which they were started, and a signal tells only that somebody ended.
void KeeperProcess::handle_events() {
  int longest = -1;
  if (ending_) {
    const auto left = std::chrono::ceil<milliseconds>(next_step_ - Ending::Clock::now()).count();
    longest = static_cast<int>(std::max<std::int64_t>(left, 0));
  }
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(events_.number(), events.data(), static_cast<int>(events.size()), longest);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t data = events[static_cast<std::size_t>(i)].data.u64;
    handle(static_cast<Source>(data >> worker_bits), static_cast<pid_t>(data & UINT32_MAX));
  }
}

void KeeperProcess::handle(Source source, pid_t worker) {
  switch (source) {
    case Source::orders:
      return take_orders();
    case Source::launcher:
      return lose_launcher();
    case Source::child_signal: {
      // Who it was is asked by reap_orphans(); signals that came together are one.
      signalfd_siginfo ignored;
      while (::read(child_signal_.number(), &ignored, sizeof ignored) > 0) {
      }
      return;
    }
    case Source::beginning:
      return worker_begins(worker);
    case Source::end:
      return worker_ends(worker);
  }
}

void KeeperProcess::take_orders() {
  std::vector<ReceivedMessage> messages = connection_.receive();
  if (connection_.ended()) return lose_launcher();  // whatever it had ordered
  for (ReceivedMessage& message : messages)
    std::visit([this](auto&& order) { obey(std::forward<decltype(order)>(order)); }, decode_order(std::move(message)));
}

void KeeperProcess::obey(StartWorker order) {
  set_mark(order.environment, mark_);
  auto worker = WorkerProcess::start(order, group_ ? &*group_ : nullptr);
  if (!worker) return tell(WorkerNotStarted{order.local_rank, worker.error().what});
  const pid_t pid = worker->pid();
  const bool watched = watch(worker->beginning().number(), EPOLLIN | EPOLLET, Source::beginning, pid) &&
                       watch(worker->handle().number(), EPOLLIN | EPOLLET, Source::end, pid);
  if (!watched) {
    // It has not proceeded, and with its socket gone it ends; as a stranger, it is reaped like any other.
    return tell(WorkerNotStarted{order.local_rank, "cannot watch the process: the limit of epoll is reached"});
  }
  worker->proceed();
  workers_.emplace(pid, std::move(*worker));
}

void KeeperProcess::obey(const SignalWorkers& order) {
  for (auto& [pid, worker] : workers_) {
    if (order.local_rank && *order.local_rank != worker.local_rank()) continue;
    worker.note_signal();
    worker.signal(order.signal);
    if (asks_for_an_end(order.signal)) worker.signal(SIGCONT);
  }
}

void KeeperProcess::obey(const EndAll& order) {
  for (auto& [pid, worker] : workers_) worker.note_signal();
  const auto kill_at = Ending::Clock::now() + order.grace;
  if (ending_)
    ending_->hurry(kill_at);
  else
    ending_.emplace(kill_at);
}

void KeeperProcess::worker_begins(pid_t pid) {
  const auto worker = workers_.find(pid);
  if (worker == workers_.end() || !worker->second.is_beginning()) return;
  const int local_rank = worker->second.local_rank();
  if (const auto reason = worker->second.begun())
    tell(WorkerNotStarted{local_rank, *reason});
  else
    tell(WorkerStarted{local_rank, pid});
}

void KeeperProcess::worker_ends(pid_t pid) {
  worker_begins(pid);
  const auto worker = workers_.find(pid);
  if (worker == workers_.end()) return;
  const auto end = worker->second.reap();
  if (!end) return;
  if (!worker->second.has_failed())
    tell(WorkerExited{worker->second.local_rank(), pid, *end, std::chrono::system_clock::now(),
                      worker->second.was_signalled()});
  workers_.erase(worker);
}

void KeeperProcess::lose_launcher() {
  if (launcher_gone_) return;
  launcher_gone_ = true;
  for (const int descriptor : {connection_.descriptor(), launcher_.number()})
    ::epoll_ctl(events_.number(), EPOLL_CTL_DEL, descriptor, nullptr);
  obey(EndAll{});
}

// Ranks are reaped in the order of their ends, others here. True while this process has children that it has to end.
bool KeeperProcess::reap_orphans() {
  while (true) {
    siginfo_t facts{};
    if (::waitid(P_ALL, 0, &facts, WEXITED | WNOHANG | WNOWAIT) != 0) return errno != ECHILD;
    // A rank's end stands in epoll's list, and after it we come back.
    if (facts.si_pid != 0 && workers_.contains(facts.si_pid)) return true;
    if (facts.si_pid == 0) return !std::ranges::all_of(children_of_this_process(), is_detached);
    ::waitpid(facts.si_pid, nullptr, WNOHANG);
  }
}

void KeeperProcess::advance_ending() {
  if (!ending_) return;
  if (reap_orphans())
    next_step_ = ending_->advance(workers_, group_ ? &*group_ : nullptr);
  else
    finish_ending();
}

void KeeperProcess::finish_ending() {
  tell(AllGone{ending_->left_behind()});
  ending_.reset();
  if (!group_ || !group_->is_spent()) return;
  group_->remove();
  group_.reset();
  if (!launcher_gone_) group_ = ControlGroup::create(identity_);
}

void KeeperProcess::tell(const KeeperEvent& event) { connection_.queue(encode(event)); }

// A launcher that is stopped reads nothing; events wait here until it does.
void KeeperProcess::send() {
  if (launcher_gone_) return;
  const bool waits = !connection_.send_some();
  if (waits == waits_to_send_) return;
  waits_to_send_ = waits;
  epoll_event event{};
  event.events = EPOLLIN | (waits ? EPOLLOUT : 0U);
  event.data.u64 = static_cast<std::uint64_t>(Source::orders) << worker_bits;
  ::epoll_ctl(events_.number(), EPOLL_CTL_MOD, connection_.descriptor(), &event);
}

}  // namespace muster::launch
