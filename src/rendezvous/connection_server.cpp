#include "rendezvous/connection_server.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "system/files.hpp"
#include "system/socket.hpp"
#include "rendezvous/connection.hpp"

namespace muster::rendezvous {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t read_size = 256 * 1024;
constexpr std::size_t events_per_wait = 256;
// When no more connections can be accepted (open files, memory, our own limit), the next try is made after that long:
// the listener stays readable and would otherwise keep the thread busy.
constexpr milliseconds accept_pause(100);

// What epoll calls the two descriptors that are not connections. Ids of connections begin at serial 1 in their upper
// half.
constexpr std::uint64_t listener_mark = 0;
constexpr std::uint64_t wake_mark = 1;

constexpr std::uint32_t readable = EPOLLIN;
constexpr std::uint32_t writable = EPOLLOUT;

Error cannot_serve() {
  return {Error::Kind::failed, fmt::format("cannot serve connections: {}", system_reason()),
          "look at the limit on open files: ulimit -n"};
}

class EpollServer final : public ConnectionServer, public Outbox {
 public:
  EpollServer(FileDescriptor listener, ServerLimits limits, Admits admits)
      : listener_(std::move(listener)), limits_(limits), admits_(std::move(admits)) {}

  ~EpollServer() override {
    thread_.request_stop();
    wake_up();
  }

  Result<void> begin(const MakeHandler& make_handler, std::string_view first_bytes) {
    epoll_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
    wake_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!epoll_ || !wake_) return cannot_serve();
    if (!watch(EPOLL_CTL_ADD, wake_.number(), readable, wake_mark)) return cannot_serve();
    if (listener_ && !watch(EPOLL_CTL_ADD, listener_.number(), readable, listener_mark)) return cannot_serve();
    for (const char byte : first_bytes)
      if (auto handler = make_handler(byte, *this)) handlers_.emplace(byte, std::move(handler));
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
    return {};
  }

  void adopt(FileDescriptor socket) override {
    auto shared = std::make_shared<FileDescriptor>(std::move(socket));
    post([this, shared] { add(std::move(*shared), "local", true); });
  }

  void run(const std::function<void()>& work) override {
    if (std::this_thread::get_id() == thread_.get_id()) return work();
    std::packaged_task<void()> task(work);
    auto done = task.get_future();
    post([&task] { task(); });
    done.get();
  }

  // ---- Outbox ----

  void send(ConnectionId id, std::string_view bytes) override {
    Connection* connection = find(id);
    if (connection == nullptr || connection->closing) return;
    connection->queue(bytes);
    touch(*connection);
  }

  void close(ConnectionId id) override {
    Connection* connection = find(id);
    if (connection != nullptr) begin_closing(*connection);
  }

  void trust(ConnectionId id) override {
    if (Connection* connection = find(id)) connection->trusted = true;
  }

 private:
  // ---- the thread ----

  void serve(const std::stop_token& stop) {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);  // signals are for the threads that know what they mean
    ::pthread_setname_np(::pthread_self(), "rendezvous");
    std::array<epoll_event, events_per_wait> events;
    auto deadline = look_after();
    while (!stop.stop_requested()) {
      const int count = ::epoll_wait(epoll_.number(), events.data(), events.size(), milliseconds_until(deadline));
      for (int i = 0; i < count; ++i) attend(events[static_cast<std::size_t>(i)]);
      deadline = look_after();
    }
  }

  void attend(const epoll_event& event) {
    if (event.data.u64 == wake_mark) return run_posted();
    if (event.data.u64 == listener_mark) return accept_all();
    Connection* connection = find(ConnectionId{event.data.u64});
    if (connection == nullptr) return;
    if (connection->closing || (event.events & writable) != 0) touch(*connection);
    if (!connection->closing && (event.events & (readable | EPOLLHUP | EPOLLERR)) != 0) read(*connection);
    settle_touched();
  }

  // After every wake-up: handlers' and our own deadlines. Returns the next.
  std::optional<Clock::time_point> look_after() {
    const auto now = Clock::now();
    std::optional<Clock::time_point> next;
    const auto consider = [&next](Clock::time_point time) { next = next ? std::min(*next, time) : time; };
    for (auto& [byte, handler] : handlers_)
      if (const auto time = handler->tick(now)) consider(*time);
    drop_silent(now);
    if (!silences_.empty()) consider(silences_.front().first);
    if (accepts_again_ && *accepts_again_ <= now) pause_accepting(false);
    if (accepts_again_) consider(*accepts_again_);
    settle_touched();
    return next;
  }

  // -1: forever. Rounded up, so that the deadline has passed when the wait is over.
  static int milliseconds_until(std::optional<Clock::time_point> deadline) {
    if (!deadline) return -1;
    const auto left = std::chrono::ceil<milliseconds>(*deadline - Clock::now());
    return static_cast<int>(std::clamp(left, milliseconds(0), milliseconds(3600 * 1000)).count());
  }

  // ---- work from other threads ----

  void post(std::function<void()> work) {
    {
      const std::scoped_lock lock(posted_mutex_);
      posted_.push_back(std::move(work));
    }
    wake_up();
  }

  void wake_up() const {
    if (wake_) ::eventfd_write(wake_.number(), 1);
  }

  void run_posted() {
    eventfd_t ignored = 0;
    ::eventfd_read(wake_.number(), &ignored);
    std::vector<std::function<void()>> works;
    {
      const std::scoped_lock lock(posted_mutex_);
      works.swap(posted_);
    }
    for (const auto& work : works) {
      work();
      settle_touched();
    }
  }

  // ---- connections come ----

  void accept_all() {
    while (true) {
      if (connection_count_ >= limits_.connections) return pause_accepting(true);
      sockaddr_storage storage{};
      socklen_t size = sizeof storage;
      FileDescriptor socket(
          ::accept4(listener_.number(), reinterpret_cast<sockaddr*>(&storage), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket) {
        add(std::move(socket), to_string(SocketAddress(reinterpret_cast<const sockaddr*>(&storage), size)), false);
        continue;
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;  // the one that was to be accepted is gone
      if (errno != EAGAIN) pause_accepting(true);
      return;
    }
  }

  void pause_accepting(bool pause) {
    accepts_again_ = pause ? std::optional(Clock::now() + accept_pause) : std::nullopt;
    watch(EPOLL_CTL_MOD, listener_.number(), pause ? 0U : readable, listener_mark);
  }

  void add(FileDescriptor socket, std::string peer, bool adopted) {
    const int yes = 1;
    ::setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);  // not for the ends of a socketpair
    std::size_t slot = slots_.size();
    if (free_slots_.empty()) {
      slots_.emplace_back();
    } else {
      slot = free_slots_.back();
      free_slots_.pop_back();
    }
    const ConnectionId id{++last_serial_ << 32 | slot};
    slots_[slot] = std::make_unique<Connection>(std::move(socket), id, std::move(peer), adopted);
    ++connection_count_;
    slots_[slot]->interest = readable;
    if (!watch(EPOLL_CTL_ADD, slots_[slot]->descriptor(), readable, number_of(id))) return remove(*slots_[slot]);
    silences_.emplace_back(Clock::now() + limits_.silence, id);
  }

  // ---- they speak ----

  // One read for each time it is ready: epoll tells again when there is more, and the others have their turn.
  void read(Connection& connection) {
    const auto bytes = connection.read(scratch_);
    if (!bytes) return;
    if (bytes->empty()) return begin_closing(connection);
    if (connection.handler == nullptr && !assign_handler(connection, bytes->front())) return begin_closing(connection);
    const auto used = connection.handler->received(connection.id(), *bytes);
    if (!used) return begin_closing(connection);
    if (*used > bytes->size()) throw std::logic_error("a handler used more than it was given");
    connection.use(*bytes, *used);
    count(connection);
    const std::size_t most = connection.trusted ? limits_.received_bytes : limits_.stranger_bytes;
    if (connection.unused() > most) return begin_closing(connection);
    if (all_received_ > limits_.all_received_bytes) drop_largest([](const Connection& one) { return one.unused(); });
  }

  // Keeps the sums of what all connections hold.
  void count(Connection& connection) {
    all_received_ += connection.unused() - std::exchange(connection.counted_in, connection.unused());
    all_queued_ += connection.queued() - std::exchange(connection.counted_out, connection.queued());
  }

  // size: what counts. Rare: every connection is looked at.
  template <class Size>
  void drop_largest(const Size& size) {
    Connection* largest = nullptr;
    for (const auto& connection : slots_)
      if (connection && !connection->closing && (largest == nullptr || size(*connection) > size(*largest)))
        largest = connection.get();
    if (largest != nullptr) abandon(*largest);
  }

  bool assign_handler(Connection& connection, char first_byte) {
    const auto handler = handlers_.find(first_byte);
    if (handler == handlers_.end()) return false;
    if (!connection.adopted() && admits_ && !admits_(first_byte, connection.socket())) return false;
    connection.handler = handler->second.get();
    connection.handler->opened(connection.id(), connection.peer());
    return true;
  }

  // ---- they are answered ----

  void touch(Connection& connection) {
    if (std::exchange(connection.touched, true)) return;
    touched_.push_back(connection.id());
  }

  // Sends what was queued and ends what is to be ended. A handler that hears of an end may queue more.
  void settle_touched() {
    for (std::size_t i = 0; i < touched_.size(); ++i) {
      Connection* connection = find(touched_[i]);
      if (connection == nullptr) continue;
      connection->touched = false;
      settle(*connection);
    }
    touched_.clear();
  }

  void settle(Connection& connection) {
    if (connection.closing) connection.forget_unused();
    const bool intact = connection.write() && connection.queued() <= limits_.queued_bytes;
    count(connection);
    if (!intact || (connection.closing && connection.queued() == 0)) return remove(connection);
    if (all_queued_ > limits_.all_queued_bytes) drop_largest([](const Connection& one) { return one.queued(); });
    const std::uint32_t interest = (connection.closing ? 0U : readable) | (connection.queued() > 0 ? writable : 0U);
    if (std::exchange(connection.interest, interest) == interest) return;
    watch(EPOLL_CTL_MOD, connection.descriptor(), interest, number_of(connection.id()));
  }

  // ---- they go ----

  void begin_closing(Connection& connection) {
    if (std::exchange(connection.closing, true)) return;
    silences_.emplace_back(Clock::now() + limits_.silence, connection.id());
    touch(connection);
  }

  void drop_silent(Clock::time_point now) {
    while (!silences_.empty() && silences_.front().first <= now) {
      Connection* connection = find(silences_.front().second);
      silences_.pop_front();
      if (connection != nullptr && (!connection->trusted || connection->closing)) remove(*connection);
    }
  }

  // Ends it without sending what is left for it.
  void abandon(Connection& connection) {
    connection.forget_unsent();
    count(connection);
    begin_closing(connection);
  }

  void remove(Connection& connection) {
    const ConnectionId id = connection.id();
    ConnectionHandler* handler = connection.handler;
    all_received_ -= connection.counted_in;
    all_queued_ -= connection.counted_out;
    // Closing alone would not do: a child between fork and exec still has the socket, and epoll would keep reporting
    // it.
    ::epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, connection.descriptor(), nullptr);
    slots_[slot_of(id)].reset();
    free_slots_.push_back(slot_of(id));
    --connection_count_;
    if (handler != nullptr) handler->closed(id);
  }

  // ---- finding them ----

  static std::uint64_t number_of(ConnectionId id) { return static_cast<std::uint64_t>(id); }
  static std::uint32_t slot_of(ConnectionId id) { return static_cast<std::uint32_t>(number_of(id)); }

  Connection* find(ConnectionId id) const {
    const std::uint32_t slot = slot_of(id);
    if (slot >= slots_.size() || !slots_[slot] || slots_[slot]->id() != id) return nullptr;
    return slots_[slot].get();
  }

  bool watch(int operation, int descriptor, std::uint32_t events, std::uint64_t mark) const {
    epoll_event event{};
    event.events = events;
    event.data.u64 = mark;
    return ::epoll_ctl(epoll_.number(), operation, descriptor, &event) == 0;
  }

  FileDescriptor listener_;
  const ServerLimits limits_;
  const Admits admits_;
  FileDescriptor epoll_;
  FileDescriptor wake_;
  std::map<char, std::unique_ptr<ConnectionHandler>> handlers_;

  // By the lower half of their ids; the upper half tells one that had the slot before from the one that has it now.
  std::vector<std::unique_ptr<Connection>> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::uint64_t last_serial_ = 0;
  std::size_t connection_count_ = 0;
  std::size_t all_received_ = 0;  // and unused
  std::size_t all_queued_ = 0;

  std::string scratch_ = std::string(read_size, '\0');
  std::vector<ConnectionId> touched_;
  // Which connections must be trusted, or gone, by when. In order, since the span is the same for all.
  std::deque<std::pair<Clock::time_point, ConnectionId>> silences_;
  std::optional<Clock::time_point> accepts_again_;

  std::mutex posted_mutex_;
  std::vector<std::function<void()>> posted_;
  std::jthread thread_;  // last: it ends before anything it uses
};

}  // namespace

std::size_t raise_open_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return limit.rlim_cur;
}

Result<std::unique_ptr<ConnectionServer>> ConnectionServer::start(FileDescriptor listener,
                                                                  const MakeHandler& make_handler,
                                                                  std::string_view first_bytes, ServerLimits limits,
                                                                  Admits admits) {
  auto server = std::make_unique<EpollServer>(std::move(listener), limits, std::move(admits));
  if (const auto begun = server->begin(make_handler, first_bytes); !begun) return begun.error();
  return std::unique_ptr<ConnectionServer>(std::move(server));
}

}  // namespace muster::rendezvous
