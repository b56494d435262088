// Ranks on CPUs, and several ranks on one GPU: c10d's Gloo. Tensors of a GPU go through host memory.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "system/socket.hpp"
#include "communicate/c10d_store.hpp"
#include "communicate/failure_text.hpp"
#include "communicate/implementations.hpp"
#include "communicate/ordered_reduction.hpp"
#include "communicate/roll_call.hpp"

namespace muster::communicate {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// c10d's group, with a way to leave it that the other ranks notice. What this rank waits for is not ended by that.
class LeavableGroup : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;
  void leave() {
    for (const auto& context : contexts_) context->closeConnections();
  }
};

// The end of one wait: by the work, or by an abort.
class Ending {
 public:
  void come() {
    const std::lock_guard guard(mutex_);
    came_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return came_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool came_ = false;
};

// On one host over the loopback interface; otherwise over GLOO_SOCKET_IFNAME, else what the host's name resolves to.
std::shared_ptr<gloo::transport::Device> choose_device(const Place& place) {
  if (const auto addresses = resolve(place.store_address, place.store_port))
    if (!addresses->empty() && addresses->front().is_loopback())
      return c10d::ProcessGroupGloo::createDeviceForHostname(addresses->front().host());
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME"); interface != nullptr && *interface != '\0')
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

c10d::ReduceOp::RedOpType gloo_operation(Reduction reduction) {
  return reduction == Reduction::sum ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
}

// The tensor flat and in host memory: itself where it is there.
at::Tensor on_host(const at::Tensor& tensor) { return tensor.view(-1).to(at::kCPU); }
void bring_back(const at::Tensor& host, const at::Tensor& tensor) {
  if (!tensor.is_cpu()) tensor.view(-1).copy_(host);
}

class GlooCommunicator : public Communicator {
 public:
  GlooCommunicator(const Place& place, milliseconds timeout, std::unique_ptr<RollCall> roll,
                   c10::intrusive_ptr<LeavableGroup> group)
      : Communicator(place.rank, place.size),
        place_(place),
        timeout_(timeout),
        roll_(std::move(roll)),
        group_(std::move(group)) {}

  // After a failure the group's own threads may still wait, and its destructor for them: it is left to the end of the
  // process, which is near.
  ~GlooCommunicator() override {
    if (failure_) static_cast<void>(group_.release());
  }

 private:
  void run_broadcast(const at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> tensors{on_host(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    collective(describe(fmt::format("broadcast from rank {}", place_.job_rank(root)), tensor),
               [&] { return group_->broadcast(tensors, options); });
    if (rank() != root) bring_back(tensors.front(), tensor);
  }

  void run_all_reduce(const at::Tensor& tensor, Reduction reduction) override {
    std::vector<at::Tensor> tensors{on_host(tensor)};
    c10d::AllreduceOptions options;
    options.reduceOp = gloo_operation(reduction);
    collective(describe("all_reduce", tensor), [&] { return group_->allreduce(tensors, options); });
    bring_back(tensors.front(), tensor);
  }

  void run_all_gather(const at::Tensor& input, const at::Tensor& output) override {
    at::Tensor from = on_host(input), to = on_host(output);
    collective(describe("all_gather", input), [&] { return group_->_allgather_base(to, from); });
    bring_back(to, output);
  }

  // c10d would reduce everything on every rank. An exchange of parts moves half of that, and fixes the order of the
  // sum.
  void run_reduce_scatter(const at::Tensor& input, const at::Tensor& output, Reduction reduction) override {
    at::Tensor from = on_host(input), parts = at::empty_like(from);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(size()), output.numel());
    collective(describe("reduce_scatter", input), [&] { return group_->alltoall_base(parts, from, counts, counts); });
    output.view(-1).copy_(reduce_in_order(parts.chunk(size()), reduction));
  }

  void run_all_to_all(const at::Tensor& input, const std::vector<std::int64_t>& input_counts, const at::Tensor& output,
                      const std::vector<std::int64_t>& output_counts) override {
    at::Tensor from = on_host(input), to = on_host(output);
    std::vector<std::int64_t> sent = input_counts, received = output_counts;
    collective(fmt::format("all_to_all of {}", c10::toString(input.scalar_type())),
               [&] { return group_->alltoall_base(to, from, received, sent); });
    bring_back(to, output);
  }

  void run_send(const at::Tensor& tensor, int to) override {
    std::vector<at::Tensor> tensors{on_host(tensor)};
    between_two(describe(fmt::format("send to rank {}", place_.job_rank(to)), tensor), to,
                [&] { return group_->send(tensors, to, 0); });
  }

  void run_receive(const at::Tensor& tensor, int from) override {
    std::vector<at::Tensor> tensors{on_host(tensor)};
    between_two(describe(fmt::format("receive from rank {}", place_.job_rank(from)), tensor), from,
                [&] { return group_->recv(tensors, from, 0); });
    bring_back(tensors.front(), tensor);
  }

  void abort_waits(const std::string& reason) override {
    fail(CommunicationError("aborted: " + reason));
    {
      const std::lock_guard guard(mutex_);
      if (ending_) ending_->come();
      for (const auto& work : between_two_) work->abort();
    }
    group_->leave();
  }

  void throw_failure() const override {
    const std::lock_guard guard(mutex_);
    if (failure_) throw CommunicationError(*failure_);
  }

  void fail(const CommunicationError& failure) {
    const std::lock_guard guard(mutex_);
    if (!failure_) failure_ = failure;
  }

  template <class Start>
  void collective(const std::string& description, Start start) {
    throw_failure();
    const std::uint64_t number = roll_->enter(description);
    wait_for([&] { finish_collective(start()); },
             [&](bool timed_out, const std::string& why) {
               // Without a time-out the others may have come a moment ago, and not have written it yet.
               const RollCallAnswer answer = roll_->call(number, timed_out ? milliseconds(0) : 2 * roll_->interval());
               if (!answer.mismatch.empty()) return CommunicationError(answer.mismatch);
               if (timed_out && answer.missing.empty() && !answer.silent.empty())
                 return CommunicationError(silence_text(description, timeout_, answer.silent, size()),
                                           answer.silent);
               if (timed_out)
                 return CommunicationError(timeout_text(description, timeout_, answer.missing, size()),
                                           answer.missing);
               std::string text = fmt::format("{}: the connection to another rank failed: {}", description, why);
               if (!answer.missing.empty())
                 text += fmt::format("; {} of {} did not come to it", list_ranks(answer.missing), size());
               return CommunicationError(text, answer.missing);
             });
  }

  template <class Start>
  void between_two(const std::string& description, int peer, Start start) {
    throw_failure();
    wait_for([&] { finish_between_two(start()); },
             [&](bool timed_out, const std::string& why) {
               const std::vector<int> missing{place_.job_rank(peer)};
               if (timed_out) return CommunicationError(timeout_text(description, timeout_, missing, size()), missing);
               return CommunicationError(fmt::format("{}: the connection failed: {}", description, why));
             });
  }

  void finish_collective(const c10::intrusive_ptr<c10d::Work>& work) {
    const auto ending = std::make_shared<Ending>();
    {
      const std::lock_guard guard(mutex_);
      if (failure_) return;
      ending_ = ending;
    }
    work->getFuture()->addCallback([ending](auto&) { ending->come(); });
    ending->wait();
    throw_failure();
    work->wait();  // it is done, or throws what went wrong
  }

  void finish_between_two(const c10::intrusive_ptr<c10d::Work>& work) {
    {
      const std::lock_guard guard(mutex_);
      if (failure_) return;
      between_two_.push_back(work);
    }
    const auto forget = [&] {
      const std::lock_guard guard(mutex_);
      std::erase(between_two_, work);
    };
    try {
      work->wait();
    } catch (...) {
      forget();
      throw;
    }
    forget();
  }

  // explain(timed_out, words of the library) makes the error of a wait that failed.
  template <class Wait, class Explain>
  void wait_for(Wait wait, Explain explain) {
    const auto began = Clock::now();
    try {
      wait();
    } catch (const std::exception& problem) {
      throw_failure();  // it was aborted: that is the reason
      const std::string why = first_line(problem);
      const bool timed_out = Clock::now() - began >= timeout_ || why.find("imed out") != std::string::npos;
      fail(explain(timed_out, why));
    }
    throw_failure();
  }

  const Place place_;
  const milliseconds timeout_;
  mutable std::mutex mutex_;  // guards the three that follow
  std::optional<CommunicationError> failure_;
  std::shared_ptr<Ending> ending_;                           // of the collective that is waited for
  std::vector<c10::intrusive_ptr<c10d::Work>> between_two_;  // the sends and receives that are waited for
  std::unique_ptr<RollCall> roll_;
  c10::intrusive_ptr<LeavableGroup> group_;
};

}  // namespace

Result<std::unique_ptr<Communicator>> make_gloo(const Place& place, milliseconds timeout) try {
  auto roll = RollCall::join(place, timeout, {});
  if (!roll) return roll.error();
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices = {choose_device(place)};
  auto group = c10::make_intrusive<LeavableGroup>(connect_store(place, (*roll)->prefix() + "/gloo", timeout),
                                                  place.rank, place.size, options);
  return std::unique_ptr<Communicator>(
      std::make_unique<GlooCommunicator>(place, timeout, std::move(*roll), std::move(group)));
} catch (const std::exception& problem) {
  return Error{
      Error::Kind::failed, fmt::format("the ranks cannot reach each other over Gloo: {}", first_line(problem)),
      "muster doctor checks the loopback interface and the host's name; GLOO_SOCKET_IFNAME names an interface"};
}

}  // namespace muster::communicate
