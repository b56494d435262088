// How long until 4,000 agents that come at once have their ranks? And until all have begun again after a failure, and
// until all know that the run is over? Real sockets over loopback, the real server; the agents share this process.
//   rendezvous_bench --agents 4000 --client-threads 1 --repeats 5
// Prints one line of JSON per repeat; exits 1 when an agent was not served.
#include <fmt/format.h>
#include <sys/epoll.h>

#include <array>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "system/socket.hpp"
#include "base/text.hpp"
#include "rendezvous/agent_link.hpp"
#include "rendezvous/connection_server.hpp"
#include "rendezvous/membership.hpp"

namespace {

using namespace muster;
using namespace muster::rendezvous;
using namespace std::chrono_literals;

struct Options {
  int agents = 4000;
  int client_threads = 1;
  int repeats = 5;
};

constexpr auto patience = 60s;

// Some of the agents, driven by one thread.
class Agents {
 public:
  Agents(const SocketAddress& coordinator, int first, int end) : coordinator_(coordinator), first_(first), end_(end) {
    epoll_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  }

  void connect() {
    for (int agent = first_; agent < end_; ++agent) {
      auto socket = connect_to({coordinator_}, Clock::now() + patience);
      if (!socket) throw std::runtime_error(to_string(socket.error()));
      Join join;
      join.run_id = "bench";
      join.host = fmt::format("node-{}", agent);
      join.pid = agent;
      join.local_world_size = 8;
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u64 = links_.size();
      ::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, socket->number(), &event);
      links_.emplace_back(*std::move(socket), join, "the secret of the bench", Clock::now());
    }
  }

  void wait_for_starts(int round) {
    served_ = 0;
    drive([this, round](AgentLink& link, const CoordinatorMessage& message) {
      if (const auto* stop = std::get_if<Stop>(&message)) link.send(Stopped{stop->round});
      if (const auto* start = std::get_if<Start>(&message); start != nullptr && start->round == round) ++served_;
    });
  }

  void fail_one() {
    if (first_ != 0) return;
    links_.front().send(Failed{0, 0ms, "{\"rank\":0}"});
    links_.front().send(Stopped{0});
  }

  void succeed() {
    for (AgentLink& link : links_) link.send(Succeeded{1});
    served_ = 0;
    drive([this](AgentLink&, const CoordinatorMessage& message) {
      if (const auto* finish = std::get_if<Finish>(&message); finish != nullptr && finish->success) ++served_;
    });
  }

 private:
  using Take = std::function<void(AgentLink&, const CoordinatorMessage&)>;

  // Until every agent has been served.
  void drive(const Take& take) {
    const auto give_up = Clock::now() + patience;
    auto next_sweep = Clock::now() + 500ms;
    std::array<epoll_event, 256> events;
    while (served_ < links_.size()) {
      const int count = ::epoll_wait(epoll_.number(), events.data(), events.size(), 100);
      const auto now = Clock::now();
      for (int i = 0; i < count; ++i) receive(links_[events[static_cast<std::size_t>(i)].data.u64], now, take);
      if (now >= give_up) throw std::runtime_error(fmt::format("{} of {} agents served", served_, links_.size()));
      if (now < next_sweep) continue;
      for (AgentLink& link : links_) receive(link, now, take);
      next_sweep = now + 500ms;
    }
  }

  static void receive(AgentLink& link, Clock::time_point now, const Take& take) {
    const auto messages = link.receive(now);
    if (!messages) throw std::runtime_error(to_string(messages.error()));
    for (const CoordinatorMessage& message : *messages) {
      if (const auto* refuse = std::get_if<Refuse>(&message)) throw std::runtime_error(refuse->reason);
      take(link, message);
    }
  }

  SocketAddress coordinator_;
  int first_;
  int end_;
  FileDescriptor epoll_;
  std::vector<AgentLink> links_;
  std::size_t served_ = 0;
};

std::unique_ptr<ConnectionServer> serve(FileDescriptor listener, int agents) {
  MembershipRules rules;
  rules.run_id = "bench";
  rules.minimum_hosts = rules.maximum_hosts = agents;
  rules.maximum_restarts = 1;
  rules.silence = patience;  // the agents of one thread are quiet while it connects the rest
  const auto make_handler = [&](char, Outbox& outbox) {
    return make_agent_handler(Membership::make(rules, Clock::now()), {.secret = "the secret of the bench"}, outbox,
                              {});
  };
  auto server = ConnectionServer::start(std::move(listener), make_handler, std::string_view(&agent_first_byte, 1));
  if (!server) throw std::runtime_error(to_string(server.error()));
  return *std::move(server);
}

void measure(const Options& options) {
  auto listener = listen_on(resolve("127.0.0.1", 0).value().front());
  if (!listener) throw std::runtime_error(to_string(listener.error()));
  const SocketAddress address = local_address(*listener);
  const auto server = serve(*std::move(listener), options.agents);

  std::vector<Clock::time_point> times{Clock::now()};
  std::barrier everyone(options.client_threads, [&]() noexcept { times.push_back(Clock::now()); });
  std::vector<std::jthread> threads;
  for (int i = 0; i < options.client_threads; ++i) {
    threads.emplace_back([&, i] {
      try {
        Agents agents(address, options.agents * i / options.client_threads, options.agents * (i + 1) / options.client_threads);
        agents.connect();
        agents.wait_for_starts(0);
        everyone.arrive_and_wait();
        agents.fail_one();
        agents.wait_for_starts(1);
        everyone.arrive_and_wait();
        agents.succeed();
        everyone.arrive_and_wait();
      } catch (const std::exception& failure) {
        fmt::print(stderr, "{}\n", failure.what());
        std::_Exit(1);  // the other threads wait for this one
      }
    });
  }
  threads.clear();
  const auto seconds = [&](std::size_t phase) {
    return std::chrono::duration<double>(times[phase + 1] - times[phase]).count();
  };
  fmt::print(
      "{{\"benchmark\": \"rendezvous\", \"agents\": {}, \"client_threads\": {}, \"seconds_to_start\": {:.3f}, "
      "\"seconds_to_restart\": {:.3f}, \"seconds_to_finish\": {:.3f}}}\n",
      options.agents, options.client_threads, seconds(0), seconds(1), seconds(2));
  std::fflush(stdout);
}

bool parse_arguments(int count, char** arguments, Options& options) {
  for (int at = 1; at < count; at += 2) {
    const std::string_view name = arguments[at];
    const auto number = at + 1 < count ? parse_number<int>(arguments[at + 1]) : std::nullopt;
    if (!number || *number < 1) return false;
    if (name == "--agents")
      options.agents = *number;
    else if (name == "--client-threads")
      options.client_threads = *number;
    else if (name == "--repeats")
      options.repeats = *number;
    else
      return false;
  }
  return options.client_threads <= options.agents;
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  if (!parse_arguments(count, arguments, options)) {
    fmt::print(stderr, "usage: rendezvous_bench [--agents N] [--client-threads N] [--repeats N]\n");
    return 2;
  }
  raise_open_file_limit();  // two an agent
  for (int repeat = 0; repeat < options.repeats; ++repeat) measure(options);
  return 0;
}
