// How many set+get pairs per second the store serves to many connections. Bar: 100,000 with 64 connections on two
// cores. Beside it, in turn, a server that does nothing but count bytes and send as many back: what the sockets alone
// cost. The processor time of a pair tells what two cores could do where others use them, too.
//   store_bench [--connections 64] [--threads 1] [--seconds 2] [--rounds 3] [--value-bytes 64]
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "system/socket.hpp"
#include "base/text.hpp"
#include "rendezvous/connection_server.hpp"
#include "rendezvous/key_value_store.hpp"
#include "rendezvous/store_protocol.hpp"

namespace muster::rendezvous {
namespace {

struct Settings {
  std::size_t connections = 64;
  std::size_t threads = 1;
  std::size_t seconds = 2;
  std::size_t rounds = 3;
  std::size_t value_bytes = 64;
};

enum class Kind {
  set_get,         // sent one by one, as torch's client does
  set_wait_get,    // as torch's client does get()
  set_get_as_one,  // in one go, as a client that knows better
};
struct NamedKind {
  Kind kind;
  std::string_view name;
};
constexpr std::array kinds{NamedKind{Kind::set_get, "set, get"}, NamedKind{Kind::set_wait_get, "set, wait, get"},
                           NamedKind{Kind::set_get_as_one, "set and get in one send"}};

// What a client sends in one go, and how many bytes it then waits for.
struct Step {
  std::string request;
  std::size_t reply_bytes = 0;
};
using Pair = std::vector<Step>;

std::string bytes_of(const StoreRequest& request) {
  std::string bytes;
  encode(request, bytes);
  return bytes;
}

// Each connection has a key of its own.
Pair pair_of(std::size_t connection, const Settings& settings, Kind kind) {
  const std::string key = fmt::format("/default_pg/0//bench/{:06}", connection);
  const std::string value(settings.value_bytes, 'v');
  const std::string set = bytes_of({.command = StoreCommand::set, .key = key, .value = value});
  const std::string wait = bytes_of({.command = StoreCommand::wait, .keys = {key}});
  const std::string get = bytes_of({.command = StoreCommand::get, .key = key});
  const std::size_t reply = sizeof(std::uint64_t) + value.size();
  if (kind == Kind::set_get_as_one) return {{set + get, reply}};
  if (kind == Kind::set_wait_get) return {{set, 0}, {wait, 1}, {get, reply}};
  return {{set, 0}, {get, reply}};
}

// ---- the peer: it knows the sizes of requests and replies, and nothing else ----

class CountingServer {
 public:
  CountingServer(FileDescriptor listener, const Pair& pair) : listener_(std::move(listener)) {
    for (const Step& step : pair) {
      unanswered_ += step.request.size();
      if (step.reply_bytes == 0) continue;
      sizes_.push_back({unanswered_, std::string(step.reply_bytes, '\0')});
      unanswered_ = 0;
    }
    watch(listener_.number());
    watch(stop_.number());
    thread_ = std::jthread([this] { serve(); });
  }
  ~CountingServer() { ::eventfd_write(stop_.number(), 1); }

 private:
  struct Exchange {
    std::size_t request_bytes;
    std::string reply;
  };
  struct Peer {
    FileDescriptor socket;
    std::size_t received = 0;
    std::size_t next = 0;
  };

  void watch(int descriptor) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = descriptor;
    ::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, descriptor, &event);
  }

  void serve() {
    std::map<int, Peer> peers;
    std::array<epoll_event, 256> events;
    while (true) {
      const int count = ::epoll_wait(epoll_.number(), events.data(), events.size(), -1);
      for (int i = 0; i < count; ++i) {
        const int descriptor = events[static_cast<std::size_t>(i)].data.fd;
        if (descriptor == stop_.number()) return;
        if (descriptor == listener_.number())
          accept(peers);
        else if (!answer(peers.at(descriptor)))
          peers.erase(descriptor);
      }
    }
  }

  void accept(std::map<int, Peer>& peers) const {
    FileDescriptor socket(::accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    const int yes = 1, descriptor = socket.number();
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    watch(descriptor);
    peers[descriptor].socket = std::move(socket);
  }

  bool answer(Peer& peer) {
    const ssize_t size = ::recv(peer.socket.number(), buffer_.data(), buffer_.size(), 0);
    if (size <= 0) return false;
    peer.received += static_cast<std::size_t>(size);
    while (peer.received >= sizes_[peer.next].request_bytes) {
      const Exchange& exchange = sizes_[peer.next];
      peer.received -= exchange.request_bytes;
      peer.next = (peer.next + 1) % sizes_.size();
      if (::send(peer.socket.number(), exchange.reply.data(), exchange.reply.size(), MSG_NOSIGNAL) < 0) return false;
    }
    return true;
  }

  FileDescriptor listener_;
  FileDescriptor epoll_{::epoll_create1(EPOLL_CLOEXEC)};
  FileDescriptor stop_{::eventfd(0, EFD_CLOEXEC)};
  std::vector<Exchange> sizes_;
  std::size_t unanswered_ = 0;
  std::string buffer_ = std::string(256 * 1024, '\0');
  std::jthread thread_;
};

// ---- clients: one thread drives several connections, each of which does one thing at a time ----

class Clients {
 public:
  // hello: what a connection begins with; nothing answers it.
  Clients(const SocketAddress& server, const std::vector<Pair>& pairs, const std::string& hello) {
    for (const Pair& pair : pairs) {
      Connection connection{connect_to({server}, Clock::now() + std::chrono::seconds(30)).value(), pair};
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u64 = connections_.size();
      ::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, connection.socket.number(), &event);
      connections_.push_back(std::move(connection));
    }
    for (const Connection& connection : connections_) send(connection, hello);
  }

  std::size_t run_until(Clock::time_point end) {
    std::size_t pairs = 0;
    for (Connection& connection : connections_) begin(connection);
    std::size_t busy = connections_.size();
    std::array<epoll_event, 256> events;
    while (busy > 0) {
      const bool over = Clock::now() >= end;
      const int count = ::epoll_wait(epoll_.number(), events.data(), events.size(), -1);
      for (int i = 0; i < count; ++i) {
        Connection& connection = connections_[events[static_cast<std::size_t>(i)].data.u64];
        if (!receive(connection)) continue;
        ++pairs;
        if (over)
          --busy;
        else
          begin(connection);
      }
    }
    return pairs;
  }

 private:
  struct Connection {
    FileDescriptor socket;
    Pair pair;
    std::size_t step = 0;
    std::size_t awaited = 0;
  };

  static void send(const Connection& connection, const std::string& bytes) {
    if (::send(connection.socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("the server is gone");
  }

  static void begin(Connection& connection) {
    connection.step = 0;
    go_on(connection);
  }
  // Sends steps up to the next one that has a reply.
  static void go_on(Connection& connection) {
    do {
      const Step& step = connection.pair[connection.step++];
      send(connection, step.request);
      connection.awaited = step.reply_bytes;
    } while (connection.awaited == 0);
  }

  // True: the pair is done.
  bool receive(Connection& connection) {
    const ssize_t size = ::recv(connection.socket.number(), buffer_.data(), buffer_.size(), 0);
    if (size <= 0) throw std::runtime_error("the server is gone");
    connection.awaited -= static_cast<std::size_t>(size);
    if (connection.awaited > 0) return false;
    if (connection.step == connection.pair.size()) return true;
    go_on(connection);
    return false;
  }

  FileDescriptor epoll_{::epoll_create1(EPOLL_CLOEXEC)};
  std::vector<Connection> connections_;
  std::string buffer_ = std::string(64 * 1024, '\0');
};

struct Rate {
  double pairs_per_second = 0;
  double processor_microseconds = 0;  // for each pair, of clients and server
  double server_microseconds = 0;     // of the server alone
};

// clock: of the process or of the calling thread.
double processor_seconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

Rate measure_clients(const SocketAddress& server, const Settings& settings, Kind kind, const std::string& hello) {
  std::vector<std::vector<Pair>> shares(settings.threads);
  for (std::size_t i = 0; i < settings.connections; ++i)
    shares[i % settings.threads].push_back(pair_of(i, settings, kind));
  std::vector<std::unique_ptr<Clients>> clients;
  for (const auto& share : shares) clients.push_back(std::make_unique<Clients>(server, share, hello));
  std::atomic<std::size_t> pairs = 0;
  std::vector<double> client_seconds(clients.size());
  const auto start = Clock::now();
  const double processor_start = processor_seconds(CLOCK_PROCESS_CPUTIME_ID);
  const auto end = start + std::chrono::seconds(settings.seconds);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < clients.size(); ++i)
      threads.emplace_back([&, i] {
        pairs += clients[i]->run_until(end);
        client_seconds[i] = processor_seconds(CLOCK_THREAD_CPUTIME_ID);
      });
  }
  const auto count = static_cast<double>(pairs);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const double processor = processor_seconds(CLOCK_PROCESS_CPUTIME_ID) - processor_start;
  const double server_share = processor - std::accumulate(client_seconds.begin(), client_seconds.end(), 0.0);
  return {count / seconds, 1e6 * processor / count, 1e6 * server_share / count};
}

FileDescriptor listen_here() { return listen_on(resolve("127.0.0.1", 0).value().front()).value(); }

Rate measure_store(const Settings& settings, Kind kind) {
  FileDescriptor listener = listen_here();
  const SocketAddress address = local_address(listener);
  const auto make = [](char, Outbox& outbox) { return KeyValueStore::make(outbox); };
  const auto server = ConnectionServer::start(std::move(listener), make, {&store_first_byte, 1}).value();
  const std::string hello = bytes_of({.command = StoreCommand::validate, .number = store_magic});
  return measure_clients(address, settings, kind, hello);
}

Rate measure_bare(const Settings& settings, Kind kind) {
  FileDescriptor listener = listen_here();
  const SocketAddress address = local_address(listener);
  const CountingServer server(std::move(listener), pair_of(0, settings, kind));
  return measure_clients(address, settings, kind, "");
}

Rate median(std::vector<Rate> rates) {
  std::ranges::sort(rates, {}, &Rate::pairs_per_second);
  return rates[rates.size() / 2];
}

void measure(const Settings& settings, const NamedKind& kind) {
  std::vector<Rate> store, bare;
  for (std::size_t round = 0; round < settings.rounds; ++round) {  // in turn, so that noise hits both alike
    store.push_back(measure_store(settings, kind.kind));
    bare.push_back(measure_bare(settings, kind.kind));
  }
  const Rate ours = median(store), theirs = median(bare);
  fmt::print(
      "{{\"benchmark\": \"store_bench\", \"pair\": \"{}\", \"connections\": {}, \"client_threads\": {}, "
      "\"value_bytes\": "
      "{}, \"pairs_per_second\": {:.0f}, \"bare_pairs_per_second\": {:.0f}, \"ratio\": {:.2f}, "
      "\"processor_us_per_pair\": {:.1f}, \"bare_processor_us_per_pair\": {:.1f}, \"server_us_per_pair\": {:.1f}, "
      "\"bare_server_us_per_pair\": {:.1f}, \"bar\": {}}}\n",
      kind.name, settings.connections, settings.threads, settings.value_bytes, ours.pairs_per_second,
      theirs.pairs_per_second, ours.pairs_per_second / theirs.pairs_per_second, ours.processor_microseconds,
      theirs.processor_microseconds, ours.server_microseconds, theirs.server_microseconds,
      kind.kind == Kind::set_get ? "100000" : "null");
  std::fflush(stdout);
}

}  // namespace
}  // namespace muster::rendezvous

int main(int count, char** arguments) {
  muster::rendezvous::Settings settings;
  const std::map<std::string_view, std::size_t*> names{{"--connections", &settings.connections},
                                                       {"--threads", &settings.threads},
                                                       {"--seconds", &settings.seconds},
                                                       {"--rounds", &settings.rounds},
                                                       {"--value-bytes", &settings.value_bytes}};
  for (int at = 1; at < count; at += 2) {
    const auto name = names.find(arguments[at]);
    const auto value = muster::parse_number<std::size_t>(at + 1 < count ? arguments[at + 1] : "");
    if (name == names.end() || !value || *value == 0) {
      fmt::print(stderr,
                 "usage: store_bench [--connections N] [--threads N] [--seconds N] [--rounds N] [--value-bytes N]\n");
      return 2;
    }
    *name->second = *value;
  }
  for (const auto& kind : muster::rendezvous::kinds) muster::rendezvous::measure(settings, kind);
  return 0;
}
