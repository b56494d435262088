#include "worlds.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "system/file_descriptor.hpp"
#include "system/socket.hpp"
#include "base/text.hpp"
#include "communicate/implementations.hpp"
#include "communicate/thread_group.hpp"
#include "rendezvous/connection_server.hpp"
#include "rendezvous/key_value_store.hpp"

namespace muster::communicate {
namespace {

RankOutcome outcome_of(Communicator& ranks, const RankBody& body) {
  try {
    body(ranks);
    return {};
  } catch (const CommunicationError& problem) {
    return {RankEnd::threw, problem.what(), problem.missing()};
  } catch (const std::exception& problem) {
    return {RankEnd::threw, problem.what(), {}};
  }
}

bool is_absent(const std::vector<int>& absent, int rank) { return std::ranges::find(absent, rank) != absent.end(); }

class ThreadWorld : public World {
 public:
  at::Device device(int) const override { return at::kCPU; }
  std::vector<RankOutcome> run(int size, std::chrono::milliseconds timeout, const RankBody& body,
                               const std::vector<int>& absent) override {
    auto ranks = size == 1 ? alone() : make_thread_group(size, timeout);
    std::vector<RankOutcome> outcomes(static_cast<std::size_t>(size));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      const auto position = static_cast<std::size_t>(rank);
      if (is_absent(absent, rank)) continue;
      threads.emplace_back([&, position] { outcomes[position] = outcome_of(*ranks[position], body); });
    }
    threads.clear();
    return outcomes;
  }

 private:
  static std::vector<std::unique_ptr<Communicator>> alone() {
    std::vector<std::unique_ptr<Communicator>> ranks;
    ranks.push_back(make_single_rank(at::kCPU));
    return ranks;
  }
};

struct Child {
  pid_t pid = 0;
  FileDescriptor outcome;  // to be read from
};

std::string as_text(const RankOutcome& outcome) {
  return fmt::format("{}\n{}\n{}", static_cast<int>(outcome.end), fmt::join(outcome.missing, ","), outcome.what);
}

RankOutcome from_text(const std::string& text) {
  const auto first = text.find('\n'), second = text.find('\n', first + 1);
  RankOutcome outcome{static_cast<RankEnd>(std::stoi(text)), text.substr(second + 1), {}};
  const std::string missing = text.substr(first + 1, second - first - 1);
  if (!missing.empty())
    for (const std::string& rank : split(missing, ',')) outcome.missing.push_back(std::stoi(rank));
  return outcome;
}

class ProcessWorld : public World {
 public:
  ProcessWorld(Backend backend, bool gpu) : backend_(backend), gpu_(gpu) {}

  at::Device device(int) const override { return gpu_ ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU); }

  std::vector<RankOutcome> run(int size, std::chrono::milliseconds timeout, const RankBody& body,
                               const std::vector<int>& absent) override {
    StoreServer store;
    std::vector<Child> children;
    for (int rank = 0; rank < size; ++rank)
      children.push_back(is_absent(absent, rank) ? Child{} : start(rank, size, store.port(), timeout, body));
    store.serve();  // a thread: only now that nothing is forked any more
    std::vector<RankOutcome> outcomes;
    for (Child& child : children) outcomes.push_back(finish(child));
    return outcomes;
  }

 private:
  Child start(int rank, int size, std::uint16_t port, std::chrono::milliseconds timeout, const RankBody& body) const {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
    const pid_t pid = ::fork();
    if (pid != 0) {
      ::close(ends[1]);
      return {pid, FileDescriptor(ends[0])};
    }
    const std::string text = as_text(live(Place{rank, size, rank, "127.0.0.1", port}, timeout, body));
    const auto written = ::write(ends[1], text.data(), text.size());
    ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }

  RankOutcome live(const Place& place, std::chrono::milliseconds timeout, const RankBody& body) const {
    at::set_num_threads(1);
    if (backend_ == Backend::nccl) ::setenv("NCCL_HOSTID", fmt::format("host{}", place.rank).c_str(), 1);
    auto ranks = make_communicator(backend_, place, device(place.rank), timeout);
    if (!ranks) return {RankEnd::could_not_join, ranks.error().what, {}};
    RankOutcome outcome = outcome_of(**ranks, body);
    if (outcome.end != RankEnd::done)
      static_cast<void>(ranks->release());  // its threads may wait for ranks that are gone
    return outcome;
  }

  static RankOutcome finish(Child& child) {
    if (child.pid == 0) return {};
    std::string text;
    std::array<char, 4096> buffer;
    for (ssize_t count; (count = ::read(child.outcome.number(), buffer.data(), buffer.size())) > 0;)
      text.append(buffer.data(), static_cast<std::size_t>(count));
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    if (WIFSIGNALED(status)) return {RankEnd::killed, fmt::format("signal {}", WTERMSIG(status)), {}};
    return text.empty() ? RankOutcome{RankEnd::killed, "it said nothing", {}} : from_text(text);
  }

  Backend backend_;
  bool gpu_;
};

}  // namespace

StoreServer::StoreServer()
    : listener_(*listen_on(resolve("127.0.0.1", 0)->front())), port_(local_address(listener_).port()) {}
StoreServer::~StoreServer() = default;

void StoreServer::serve() {
  server_ = *rendezvous::ConnectionServer::start(
      std::move(listener_), [](char, rendezvous::Outbox& outbox) { return rendezvous::KeyValueStore::make(outbox); },
      {&rendezvous::store_first_byte, 1});
}

std::unique_ptr<World> make_thread_world() { return std::make_unique<ThreadWorld>(); }
std::unique_ptr<World> make_process_world(Backend backend, bool gpu) {
  return std::make_unique<ProcessWorld>(backend, gpu);
}

}  // namespace muster::communicate
