#include "launch/log_pump.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "system/files.hpp"
#include "system/signals.hpp"
#include "launch/error_tail.hpp"
#include "launch/file_watch.hpp"
#include "launch/log_flow.hpp"

namespace muster::launch {
namespace {

using Id = FileWatch::Id;

// What epoll tells of: the two below, or a flow.
constexpr Id order_id = 0;
constexpr Id file_id = 1;
constexpr Id first_flow_id = 2;

constexpr int without_notice_ms = 20;  // how often files are looked at for which there is no watch
constexpr std::size_t buffer_bytes = 256 * 1024;

struct ActiveFlow {
  LogFlow flow;
  bool watched = true;  // a followed file: the kernel tells when it grows
  bool ready = true;    // something may be there to read
};

bool add_to(const FileDescriptor& epoll, int descriptor, Id id) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = id}};
  return ::epoll_ctl(epoll.number(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

}  // namespace

struct LogPump::State {
  int output = 1;
  int errors = 2;
  FileDescriptor epoll;
  FileDescriptor order;  // an event counter: something was added, or the end is asked for

  std::mutex mutex;  // guards the next three
  std::vector<LogFlow> added;
  bool finishing = false;
  std::map<int, ErrorTail> tails;  // by local rank

  // Used by the thread alone.
  FileWatch files;
  std::map<Id, ActiveFlow> flows;
  Id next_id = first_flow_id;
  std::vector<char> buffer = std::vector<char>(buffer_bytes);

  std::thread thread;

  void tell() const;
  void run();
  bool take_orders();
  void begin(LogFlow flow);
  void wait_for_news();
  void move_all();
};

// To the thread: look at the orders.
void LogPump::State::tell() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t told =
      ::write(order.number(), &one, sizeof one);  // fails only when it is signalled already
}

void LogPump::State::run() {
  while (!take_orders()) {
    wait_for_news();
    move_all();
  }
  for (auto& [id, active] : flows) active.flow.finish(buffer);
  flows.clear();
}

// True when the end is asked for.
bool LogPump::State::take_orders() {
  std::vector<LogFlow> fresh;
  bool end = false;
  {
    const std::scoped_lock lock(mutex);
    fresh.swap(added);
    end = finishing;
  }
  for (LogFlow& flow : fresh) begin(std::move(flow));
  return end;
}

void LogPump::State::begin(LogFlow flow) {
  const Id id = next_id++;
  const bool watched =
      flow.stream().followed ? files.add(*flow.stream().followed, id) : add_to(epoll, flow.source(), id);
  flows.emplace(id, ActiveFlow{std::move(flow), watched});
}

// Marks flows that may have something. Does not wait while one is known to.
void LogPump::State::wait_for_news() {
  bool ready = false, all_watched = true;
  for (const auto& [id, active] : flows) {
    ready = ready || active.ready;
    all_watched = all_watched && active.watched;
  }
  std::array<epoll_event, 64> events;
  const int patience = ready ? 0 : all_watched ? -1 : without_notice_ms;
  const int count = ::epoll_wait(epoll.number(), events.data(), static_cast<int>(events.size()), patience);
  const auto mark = [&](Id id) {
    if (const auto found = flows.find(id); found != flows.end()) found->second.ready = true;
  };
  for (int at = 0; at < count; ++at) {
    const Id id = events[static_cast<std::size_t>(at)].data.u64;
    if (id == order_id) {
      std::uint64_t orders = 0;
      [[maybe_unused]] const ssize_t got = ::read(order.number(), &orders, sizeof orders);
    } else if (id == file_id) {
      for (const Id changed : files.changed()) mark(changed);
    } else {
      mark(id);
    }
  }
  for (auto& [id, active] : flows)
    if (!active.watched) active.ready = true;
}

// In turn, a piece of each, so that one that never stops does not silence the others.
void LogPump::State::move_all() {
  for (auto at = flows.begin(); at != flows.end();) {
    ActiveFlow& active = at->second;
    const LogFlow::Progress progress = active.ready ? active.flow.move(buffer).progress : LogFlow::Progress::nothing;
    active.ready = progress == LogFlow::Progress::some;
    if (progress != LogFlow::Progress::over) {
      ++at;
      continue;
    }
    // Closing alone does not end the notices while a fork of this process has the descriptor too.
    ::epoll_ctl(epoll.number(), EPOLL_CTL_DEL, active.flow.source(), nullptr);
    at = flows.erase(at);
  }
}

Result<LogPump> LogPump::start(int output, int errors) {
  auto state = std::make_unique<State>();
  state->output = output;
  state->errors = errors;
  state->epoll = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  state->order = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state->epoll || !state->order || !add_to(state->epoll, state->order.number(), order_id))
    return Error{Error::Kind::failed, fmt::format("cannot watch the output of ranks: {}", system_reason()),
                 "raise the limit of open files (ulimit -n)"};
  if (state->files.descriptor() >= 0) add_to(state->epoll, state->files.descriptor(), file_id);
  // Signals belong to the thread that waits for them; and SIGPIPE of a console that is gone becomes an error of
  // write().
  const BlockedSignals quiet;
  state->thread = std::thread([pump = state.get()] { pump->run(); });
  return LogPump(std::move(state));
}

LogPump::LogPump(std::unique_ptr<State> state) : state_(std::move(state)) {}
LogPump::LogPump(LogPump&&) noexcept = default;
LogPump& LogPump::operator=(LogPump&& other) noexcept {
  if (this != &other) {
    finish();
    state_ = std::move(other.state_);
  }
  return *this;
}
LogPump::~LogPump() { finish(); }

Result<void> LogPump::add(PumpedStream stream) {
  if (!state_ || !state_->thread.joinable()) throw std::logic_error("LogPump::add after finish");
  const std::scoped_lock lock(state_->mutex);
  ErrorTail* tail = stream.errors ? &state_->tails[stream.local_rank] : nullptr;
  const bool only_remembered = !stream.console && !stream.filtered;
  const int console = stream.errors ? state_->errors : state_->output;
  const auto followed = stream.followed;
  auto flow = LogFlow::open(std::move(stream), console, followed ? nullptr : tail);
  if (!flow) return flow.error();
  if (followed && tail != nullptr) tail->read_from(FileDescriptor(::fcntl(flow->source(), F_DUPFD_CLOEXEC, 0)));
  if (followed && only_remembered) return {};  // the file itself remembers
  state_->added.push_back(std::move(*flow));
  state_->tell();
  return {};
}

void LogPump::finish() {
  if (!state_ || !state_->thread.joinable()) return;
  {
    const std::scoped_lock lock(state_->mutex);
    state_->finishing = true;
  }
  state_->tell();
  state_->thread.join();
}

std::vector<std::string> LogPump::last_error_lines(int local_rank, std::size_t count) const {
  const std::scoped_lock lock(state_->mutex);
  const auto found = state_->tails.find(local_rank);
  return found == state_->tails.end() ? std::vector<std::string>() : found->second.lines(count);
}

}  // namespace muster::launch
