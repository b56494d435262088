// Ranks on CPUs, and several ranks on one GPU: c10d's Gloo. Tensors of a GPU go through host memory.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "base/socket.hpp"
#include "communicate/c10d_store.hpp"
#include "communicate/failure_text.hpp"
#include "communicate/implementations.hpp"
#include "communicate/roll_call.hpp"

namespace muster::communicate {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// c10d's group, which lacks a way to end its waits.
class EndableGroup : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;
  void end_waits() {
    for (const auto& context : contexts_) context->closeConnections();
  }
};

// On one host over the loopback interface; otherwise over GLOO_SOCKET_IFNAME, else where the host's name leads.
std::shared_ptr<gloo::transport::Device> choose_device(const Place& place) {
  if (const auto addresses = resolve(place.store_address, place.store_port))
    if (!addresses->empty() && addresses->front().is_loopback())
      return c10d::ProcessGroupGloo::createDeviceForHostname(addresses->front().host());
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME"); interface != nullptr && *interface != '\0')
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

c10d::ReduceOp::RedOpType as_c10d(Reduction reduction) {
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
                   c10::intrusive_ptr<EndableGroup> group)
      : Communicator(place.rank, place.size), timeout_(timeout), roll_(std::move(roll)), group_(std::move(group)) {}

 private:
  void run_broadcast(const at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> tensors{on_host(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    collective(describe(fmt::format("broadcast from rank {}", root), tensor),
               [&] { return group_->broadcast(tensors, options); });
    if (rank() != root) bring_back(tensors.front(), tensor);
  }

  void run_all_reduce(const at::Tensor& tensor, Reduction reduction) override {
    std::vector<at::Tensor> tensors{on_host(tensor)};
    c10d::AllreduceOptions options;
    options.reduceOp = as_c10d(reduction);
    collective(describe("all_reduce", tensor), [&] { return group_->allreduce(tensors, options); });
    bring_back(tensors.front(), tensor);
  }

  void run_all_gather(const at::Tensor& input, const at::Tensor& output) override {
    at::Tensor from = on_host(input), to = on_host(output);
    collective(describe("all_gather", input), [&] { return group_->_allgather_base(to, from); });
    bring_back(to, output);
  }

  void run_reduce_scatter(const at::Tensor& input, const at::Tensor& output, Reduction reduction) override {
    at::Tensor from = on_host(input), to = on_host(output);
    c10d::ReduceScatterOptions options;
    options.reduceOp = as_c10d(reduction);
    collective(describe("reduce_scatter", input), [&] { return group_->_reduce_scatter_base(to, from, options); });
    bring_back(to, output);
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
    between_two(describe(fmt::format("send to rank {}", to), tensor), to, [&] { return group_->send(tensors, to, 0); });
  }

  void run_receive(const at::Tensor& tensor, int from) override {
    std::vector<at::Tensor> tensors{on_host(tensor)};
    between_two(describe(fmt::format("receive from rank {}", from), tensor), from,
                [&] { return group_->recv(tensors, from, 0); });
    bring_back(tensors.front(), tensor);
  }

  void abort_waits(const std::string& reason) override {
    fail(CommunicationError("aborted: " + reason));
    group_->end_waits();
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
    wait_for(start, [&](bool timed_out, const std::string& why) {
      // Without a time-out the others may have come a moment ago, and not have written it yet.
      const Attendance attendance = roll_->call(number, timed_out ? milliseconds(0) : 2 * roll_->interval());
      if (!attendance.mismatch.empty()) return CommunicationError(attendance.mismatch);
      if (timed_out)
        return CommunicationError(timeout_text(description, timeout_, attendance.missing, size()), attendance.missing);
      std::string text = fmt::format("{}: the connection to another rank failed: {}", description, why);
      if (!attendance.missing.empty())
        text += fmt::format("; {} of {} did not come to it", list_ranks(attendance.missing), size());
      return CommunicationError(text, attendance.missing);
    });
  }

  template <class Start>
  void between_two(const std::string& description, int peer, Start start) {
    throw_failure();
    wait_for(start, [&](bool timed_out, const std::string& why) {
      if (timed_out) return CommunicationError(timeout_text(description, timeout_, {peer}, size()), {peer});
      return CommunicationError(fmt::format("{}: the connection failed: {}", description, why));
    });
  }

  // explain(timed_out, words of the library) makes the error of a wait that failed.
  template <class Start, class Explain>
  void wait_for(Start start, Explain explain) {
    const auto began = Clock::now();
    try {
      start()->wait();
    } catch (const std::exception& problem) {
      throw_failure();  // it was aborted: that is the reason
      const std::string why = first_line(problem);
      const bool timed_out = Clock::now() - began >= timeout_ || why.find("imed out") != std::string::npos;
      fail(explain(timed_out, why));
    }
    throw_failure();
  }

  const milliseconds timeout_;
  mutable std::mutex mutex_;
  std::optional<CommunicationError> failure_;
  std::unique_ptr<RollCall> roll_;
  c10::intrusive_ptr<EndableGroup> group_;
};

}  // namespace

Result<std::unique_ptr<Communicator>> make_gloo(const Place& place, milliseconds timeout) try {
  auto roll = RollCall::join(place, timeout, {});
  if (!roll) return roll.error();
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices = {choose_device(place)};
  auto group = c10::make_intrusive<EndableGroup>(connect_store(place, (*roll)->prefix() + "/gloo", timeout), place.rank,
                                                 place.size, options);
  return std::unique_ptr<Communicator>(
      std::make_unique<GlooCommunicator>(place, timeout, std::move(*roll), std::move(group)));
} catch (const std::exception& problem) {
  return Error{
      Error::Kind::failed, fmt::format("the ranks cannot reach each other over Gloo: {}", first_line(problem)),
      "muster doctor checks the loopback interface and the host's name; GLOO_SOCKET_IFNAME names an interface"};
}

}  // namespace muster::communicate
