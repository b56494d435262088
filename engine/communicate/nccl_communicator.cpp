// Ranks with a GPU each: c10d's NCCL. Collectives are put on the GPU's streams; the call returns before they are done.
#include "communicate/implementations.hpp"

#ifdef MUSTER_CUDA

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>

#include <cstdlib>
#include <list>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <utility>

#include "communicate/c10d_store.hpp"
#include "communicate/failure_text.hpp"
#include "communicate/roll_call.hpp"

namespace muster::communicate {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

c10d::ReduceOp::RedOpType nccl_operation(Reduction reduction) {
  return reduction == Reduction::sum ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
}

constexpr int most_connected = 16;

// A collective that the GPU has not finished, or that is still being put on its stream: the first one between two
// ranks waits there for their connection. c10d's own record of it is not kept: that would hold on to its tensors.
struct Operation {
  std::string description;
  std::optional<std::uint64_t> number = {};  // absent: between two ranks
  int peer = 0;                              // by its number in the job
};
struct Pending {
  Operation what;
  at::cuda::CUDAEvent end = {};  // not created: not on the stream yet

  bool done() const { return end.isCreated() && end.query(); }
};

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(const Place& place, at::Device device, milliseconds timeout)
      : Communicator(place.rank, place.size), place_(place), device_(device), timeout_(timeout) {}

  ~NcclCommunicator() override {
    if (roll_) roll_->stop();  // its thread looks at the group
    if (!group_) return;
    if (failure_)
      group_->abort();
    else
      group_->shutdown();
  }

  Result<void> join(const Place& place) {
    auto roll = RollCall::join(place, timeout_, [this] { look(); });
    if (!roll) return roll.error();
    // Time-outs are this class's: it names the ranks, where c10d would end the process.
    ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", 1);
    ::setenv("TORCH_NCCL_ENABLE_MONITORING", "0", 1);
    ::setenv("TORCH_NCCL_RETHROW_CUDA_ERRORS", "0", 1);
    ::setenv("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "0", 1);
    // NCCL takes its memory now, not in the middle of a step, and between two ranks no more than they need: each
    // channel costs 12 MiB for every pair.
    ::setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    ::setenv("NCCL_MAX_P2P_NCHANNELS", "4", 0);
    auto options = c10d::ProcessGroupNCCL::Options::create(true);  // computation waits for what arrives
    options->timeout = 4 * timeout_ + std::chrono::minutes(10);
    const c10::cuda::CUDAGuard guard(device_.index());
    auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(
        connect_store(place, (*roll)->prefix() + "/nccl", timeout_), place.rank, place.size, options);
    // Else the first send and receive would make a communicator of their own, which no abort reaches.
    group->eagerConnectSingleDevice(device_);
    {
      const std::lock_guard lock(mutex_);
      group_ = std::move(group);
      roll_ = std::move(*roll);
    }
    first_collective();  // which makes the connections
    if (size() <= most_connected) connect_pairs();
    return {};
  }

 private:
  // Kept although it has ended: it can be asked whether the connections are good.
  void first_collective() {
    c10::intrusive_ptr<c10d::Work> work;
    std::vector<at::Tensor> tensors{at::zeros({1}, at::TensorOptions().dtype(at::kLong).device(device_))};
    collective("the first all_reduce", tensors.front(),
               [&] { return work = group_->allreduce(tensors, c10d::AllreduceOptions()); });
    barrier();
    const std::lock_guard lock(mutex_);
    first_ = std::move(work);
  }

  // Else the first send between two ranks would wait for its peer on the host, where an abort does not always reach it.
  void connect_pairs() {
    const std::vector<std::int64_t> one_each(static_cast<std::size_t>(size()), 1);
    const at::Tensor sent = at::zeros({size()}, at::TensorOptions().dtype(at::kLong).device(device_));
    at::Tensor received = at::empty_like(sent);
    all_to_all(sent, one_each, received, one_each);
    barrier();
  }

  void run_broadcast(const at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> tensors{tensor.view(-1)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    collective(describe(fmt::format("broadcast from rank {}", place_.job_rank(root)), tensor), tensor,
               [&] { return group_->broadcast(tensors, options); });
  }

  void run_all_reduce(const at::Tensor& tensor, Reduction reduction) override {
    std::vector<at::Tensor> tensors{tensor.view(-1)};
    c10d::AllreduceOptions options;
    options.reduceOp = nccl_operation(reduction);
    collective(describe("all_reduce", tensor), tensor, [&] { return group_->allreduce(tensors, options); });
  }

  void run_all_gather(const at::Tensor& input, const at::Tensor& output) override {
    at::Tensor from = input.view(-1), to = output.view(-1);
    collective(describe("all_gather", input), input, [&] { return group_->_allgather_base(to, from); });
  }

  void run_reduce_scatter(const at::Tensor& input, const at::Tensor& output, Reduction reduction) override {
    at::Tensor from = input.view(-1), to = output.view(-1);
    c10d::ReduceScatterOptions options;
    options.reduceOp = nccl_operation(reduction);
    collective(describe("reduce_scatter", input), input,
               [&] { return group_->_reduce_scatter_base(to, from, options); });
  }

  void run_all_to_all(const at::Tensor& input, const std::vector<std::int64_t>& input_counts, const at::Tensor& output,
                      const std::vector<std::int64_t>& output_counts) override {
    at::Tensor from = input.view(-1), to = output.view(-1);
    std::vector<std::int64_t> sent = input_counts, received = output_counts;
    collective(fmt::format("all_to_all of {}", c10::toString(input.scalar_type())), input,
               [&] { return group_->alltoall_base(to, from, received, sent); });
  }

  void run_send(const at::Tensor& tensor, int to) override {
    std::vector<at::Tensor> tensors{tensor.view(-1)};
    const int peer = place_.job_rank(to);
    start({describe(fmt::format("send to rank {}", peer), tensor), std::nullopt, peer}, tensor,
          [&] { return group_->send(tensors, to, 0); });
  }

  void run_receive(const at::Tensor& tensor, int from) override {
    std::vector<at::Tensor> tensors{tensor.view(-1)};
    const int peer = place_.job_rank(from);
    start({describe(fmt::format("receive from rank {}", peer), tensor), std::nullopt, peer}, tensor,
          [&] { return group_->recv(tensors, from, 0); });
  }

  void abort_waits(const std::string& reason) override { fail(CommunicationError("aborted: " + reason)); }
  at::Device barrier_device() const override { return device_; }

  void throw_failure() const override {
    const std::lock_guard guard(mutex_);
    if (failure_) throw CommunicationError(*failure_);
  }

  template <class Start>
  void collective(const std::string& description, const at::Tensor& tensor, Start begin) {
    start({description, roll_->enter(description)}, tensor, begin);
  }

  // begin() puts it on the GPU's stream; what is computed next waits for it there.
  template <class Start>
  void start(const Operation& what, const at::Tensor& tensor, Start begin) {
    throw_failure();
    if (tensor.device() != device_)
      throw std::invalid_argument(fmt::format("{}: the tensor is on {}, and this rank communicates on {}",
                                              what.description, tensor.device().str(), device_.str()));
    const c10::cuda::CUDAGuard guard(device_.index());
    std::list<Pending>::iterator own;
    {
      const std::lock_guard lock(mutex_);
      if (pending_.empty()) oldest_since_ = Clock::now();
      own = pending_.insert(pending_.end(), Pending{what});
    }
    try {
      begin()->wait();
      at::cuda::CUDAEvent end;
      end.record();
      const std::lock_guard lock(mutex_);
      own->end = std::move(end);
    } catch (const std::exception& problem) {
      throw_failure();
      fail(CommunicationError(fmt::format("{}: {}", what.description, first_line(problem))));
      throw_failure();
    }
  }

  // On the roll call's thread: forgets what is done, and fails when the oldest takes too long or went wrong. A GPU that
  // is at fault says so here, too.
  void look() try {
    const c10::cuda::CUDAGuard guard(device_.index());
    Operation oldest;
    bool failed = false;
    {
      const std::lock_guard lock(mutex_);
      if (failure_ || !group_) return;
      while (!pending_.empty() && pending_.front().done()) {
        pending_.pop_front();
        oldest_since_ = Clock::now();
      }
      if (pending_.empty()) {
        roll_->leave();
        return;
      }
      failed = first_ && first_->isCompleted() && first_->exception();
      if (!failed && Clock::now() - oldest_since_ < timeout_) return;
      oldest = pending_.front().what;
    }
    fail(explain(oldest, !failed));
  } catch (const std::exception& problem) {
    fail(CommunicationError(first_line(problem)));
  }

  CommunicationError explain(const Operation& late, bool timed_out) {
    if (!late.number)
      return timed_out ? CommunicationError(timeout_text(late.description, timeout_, {late.peer}, size()), {late.peer})
                       : CommunicationError(late.description + ": the connection failed");
    const RollCallAnswer answer = roll_->call(*late.number, timed_out ? milliseconds(0) : 2 * roll_->interval());
    if (!answer.mismatch.empty()) return CommunicationError(answer.mismatch);
    if (timed_out)
      return CommunicationError(timeout_text(late.description, timeout_, answer.missing, size()),
                                answer.missing);
    return CommunicationError(late.description + ": the connection to another rank failed", answer.missing);
  }

  // Ends what the GPU waits for, so that the host's next wait for the GPU ends.
  void fail(const CommunicationError& failure) {
    c10::intrusive_ptr<c10d::ProcessGroupNCCL> group;
    {
      const std::lock_guard lock(mutex_);
      if (failure_) return;
      failure_ = failure;
      group = group_;
    }
    try {
      if (group) group->abort();
    } catch (const std::exception&) {
      // What went wrong is known already.
    }
  }

  const Place place_;
  const at::Device device_;
  const milliseconds timeout_;
  mutable std::mutex mutex_;  // guards what follows, but for the roll call
  std::optional<CommunicationError> failure_;
  std::list<Pending> pending_;
  Clock::time_point oldest_since_;  // it is the oldest
  c10::intrusive_ptr<c10d::Work> first_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
  std::unique_ptr<RollCall> roll_;
};

}  // namespace

Result<std::unique_ptr<Communicator>> make_nccl(const Place& place, at::Device device, milliseconds timeout) try {
  auto communicator = std::make_unique<NcclCommunicator>(place, device, timeout);
  if (auto joined = communicator->join(place); !joined) return joined.error();
  return std::unique_ptr<Communicator>(std::move(communicator));
} catch (const std::exception& problem) {
  return Error{Error::Kind::failed, fmt::format("the ranks cannot reach each other over NCCL: {}", first_line(problem)),
               "NCCL_DEBUG=WARN shows more in the ranks' logs; muster doctor checks the GPUs"};
}

}  // namespace muster::communicate

#else

namespace muster::communicate {

Result<std::unique_ptr<Communicator>> make_nccl(const Place&, at::Device, std::chrono::milliseconds) {
  return Error{Error::Kind::refused, "this muster-worker was built with a torch without CUDA, which has no NCCL",
               "use CPU ranks (--device cpu), or install a CUDA build of torch and run scripts/setup.sh engine again"};
}

}  // namespace muster::communicate

#endif
