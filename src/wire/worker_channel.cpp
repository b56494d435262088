#include "wire/worker_channel.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "system/files.hpp"
#include "system/line_connection.hpp"
#include "wire/unix_socket.hpp"

namespace muster::wire {

struct WorkerChannel::State {
  State(FileDescriptor connected, int own_rank) : line(std::move(connected)), rank(own_rank) {}

  LineConnection line;  // only for reading; writes bypass it, and block
  int rank;
  Assignment assignment;
  std::mutex writing;

  std::mutex reading;  // guards what follows
  std::condition_variable came;
  std::deque<Request> requests;
  std::vector<std::int64_t> cancelled;
  std::int64_t wanted = 0;    // so far
  std::int64_t received = 0;  // of these
  bool paused = false;        // no more of these for now
  bool ended = false;         // no more requests
  bool lost = false;
  std::jthread thread;

  void read(const std::stop_token& stop, const std::function<void(const std::string&)>& on_lost);
  Result<void> take(const std::string& line);
};

namespace {

void await_input(int descriptor) {
  pollfd waiting{descriptor, POLLIN, 0};
  ::poll(&waiting, 1, -1);
}

// Whether all of it went out.
bool write_line(int socket, std::string line) {
  line += '\n';
  std::size_t written = 0;
  while (written < line.size()) {
    const ssize_t count = ::send(socket, line.data() + written, line.size() - written, MSG_NOSIGNAL);
    if (count > 0)
      written += static_cast<std::size_t>(count);
    else if (errno != EINTR)
      return false;
  }
  return true;
}

}  // namespace

Result<void> WorkerChannel::State::take(const std::string& text) {
  auto order = parse_order(text);
  if (!order) return order.error();
  const std::lock_guard guard(reading);
  if (auto* request = std::get_if<Request>(&*order)) {
    requests.push_back(std::move(*request));
    ++received;
    paused = false;
  } else if (const auto* cancel = std::get_if<Cancel>(&*order)) {
    cancelled.push_back(cancel->index);
  } else if (std::holds_alternative<Pause>(*order)) {
    paused = true;
  } else if (std::holds_alternative<EndOfRequests>(*order)) {
    ended = true;
  } else {
    return Error{Error::Kind::failed, "a second assignment came", ""};
  }
  came.notify_all();
  return {};
}

void WorkerChannel::State::read(const std::stop_token& stop, const std::function<void(const std::string&)>& on_lost) {
  std::optional<std::string> reason;
  while (!reason && !stop.stop_requested()) {
    for (const std::string& text : line.receive()) {
      if (auto taken = take(text); !taken) reason = taken.error().what;
    }
    if (!reason) reason = line.broken();
    if (!reason) await_input(line.descriptor());
  }
  if (!reason || stop.stop_requested()) return;
  {
    const std::lock_guard guard(reading);
    lost = ended = true;
    came.notify_all();
  }
  on_lost(*reason);
}

Result<WorkerChannel> WorkerChannel::join(const std::filesystem::path& address, int rank, const Hello& hello) {
  auto socket = connect_at(address);
  if (!socket) return socket.error();
  auto state = std::make_unique<State>(std::move(*socket), rank);
  WorkerChannel channel(std::move(state));
  channel.tell(hello);
  while (true) {
    const auto lines = channel.state_->line.receive();
    if (!lines.empty()) {
      auto order = parse_order(lines.front());
      if (!order) return order.error();
      auto* assignment = std::get_if<Assignment>(&*order);
      if (assignment == nullptr || lines.size() > 1)
        return Error{Error::Kind::failed, "the controlling program said something else than one assignment", ""};
      channel.state_->assignment = std::move(*assignment);
      return channel;
    }
    if (const auto& reason = channel.state_->line.broken())
      return Error{Error::Kind::failed, fmt::format("no assignment came: {}", *reason), ""};
    await_input(channel.state_->line.descriptor());
  }
}

WorkerChannel::WorkerChannel(std::unique_ptr<State> state) : state_(std::move(state)) {}
WorkerChannel::WorkerChannel(WorkerChannel&&) noexcept = default;
WorkerChannel& WorkerChannel::operator=(WorkerChannel&&) noexcept = default;
WorkerChannel::~WorkerChannel() {
  if (!state_ || !state_->thread.joinable()) return;
  state_->thread.request_stop();
  ::shutdown(state_->line.descriptor(), SHUT_RD);  // ends the thread's wait; what was sent still goes out
}

const Assignment& WorkerChannel::assignment() const { return state_->assignment; }
int WorkerChannel::rank() const { return state_->rank; }

void WorkerChannel::listen(std::function<void(const std::string&)> lost) {
  state_->thread = std::jthread(
      [state = state_.get(), on_lost = std::move(lost)](const std::stop_token& stop) { state->read(stop, on_lost); });
}

// The reading thread notices when the controlling program is gone.
void WorkerChannel::tell(const EventBody& body) {
  const std::string text = print(Event{std::chrono::system_clock::now(), state_->rank, body});
  const std::lock_guard guard(state_->writing);
  write_line(state_->line.descriptor(), text);
}

void WorkerChannel::want(int count) {
  {
    const std::lock_guard guard(state_->reading);
    state_->wanted += count;
    state_->paused = false;
  }
  tell(Want{count});
}

std::optional<Request> WorkerChannel::next_request() {
  std::unique_lock lock(state_->reading);
  state_->came.wait(lock, [&] { return !state_->requests.empty() || state_->ended; });
  if (state_->requests.empty()) return std::nullopt;
  Request request = std::move(state_->requests.front());
  state_->requests.pop_front();
  return request;
}

std::vector<Request> WorkerChannel::gather(std::size_t most) {
  std::unique_lock lock(state_->reading);
  const auto coming = static_cast<std::size_t>(state_->wanted - state_->received) + state_->requests.size();
  if (!state_->ended && coming < most) {
    lock.unlock();
    want(static_cast<int>(most - coming));
    lock.lock();
  }
  std::vector<Request> taken;
  while (taken.size() < most) {
    const bool enough = !taken.empty();
    state_->came.wait(lock, [&] { return !state_->requests.empty() || state_->ended || (enough && state_->paused); });
    if (state_->requests.empty()) break;
    taken.push_back(std::move(state_->requests.front()));
    state_->requests.pop_front();
  }
  return taken;
}

std::optional<Request> WorkerChannel::take_request(bool& ended) {
  const std::lock_guard guard(state_->reading);
  ended = state_->requests.empty() && state_->ended;
  if (state_->requests.empty()) return std::nullopt;
  Request request = std::move(state_->requests.front());
  state_->requests.pop_front();
  return request;
}

std::vector<std::int64_t> WorkerChannel::take_cancelled() {
  const std::lock_guard guard(state_->reading);
  return std::exchange(state_->cancelled, {});
}

}  // namespace muster::wire
