#include "communicate/thread_group.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "communicate/failure_text.hpp"
#include "communicate/ordered_reduction.hpp"

namespace muster::communicate {
namespace {

using Clock = std::chrono::steady_clock;

// What a rank brings to a collective. The tensors stay its own; others only read them between two meetings.
struct Contribution {
  std::string description;
  at::Tensor input;
  std::vector<std::int64_t> counts;  // all_to_all: of the input
};

// Where the ranks meet.
class MeetingRoom {
 public:
  MeetingRoom(int size, std::chrono::milliseconds timeout)
      : timeout_(timeout), contributions_(static_cast<std::size_t>(size)), visits_(static_cast<std::size_t>(size)) {}

  // Waits for all ranks. What they brought can be read until this rank comes to the next meeting without bringing
  // anything: collectives are pairs of meetings, and nobody brings something new before all have come to the second,
  // where each lets go of what it brought.
  void meet(int rank, std::optional<Contribution> contribution) {
    std::unique_lock lock(mutex_);
    throw_failure();
    if (contribution) contributions_[static_cast<std::size_t>(rank)] = std::move(*contribution);
    const std::string description = contributions_[static_cast<std::size_t>(rank)].description;
    const std::uint64_t visit = ++visits_[static_cast<std::size_t>(rank)];
    came_.notify_all();
    const bool all = came_.wait_for(lock, timeout_, [&] {
      return failure_ || std::ranges::all_of(visits_, [&](std::uint64_t other) { return other >= visit; });
    });
    if (!all) {
      std::vector<int> missing;
      for (std::size_t other = 0; other < visits_.size(); ++other)
        if (visits_[other] < visit) missing.push_back(static_cast<int>(other));
      fail(timeout_text(description, timeout_, missing, static_cast<int>(visits_.size())), missing);
    }
    throw_failure();
    if (!contribution) contributions_[static_cast<std::size_t>(rank)].input.reset();
  }

  // All brought the same kind of collective.
  void check_descriptions(int rank) {
    const std::lock_guard lock(mutex_);
    const auto& own = contributions_[static_cast<std::size_t>(rank)].description;
    for (std::size_t other = 0; other < contributions_.size(); ++other)
      if (contributions_[other].description != own)
        fail(mismatch_text(rank, own, static_cast<int>(other), contributions_[other].description), {});
    throw_failure();
  }

  const Contribution& contribution(int rank) const { return contributions_[static_cast<std::size_t>(rank)]; }

  void post(int from, int to, at::Tensor tensor) {
    const std::lock_guard lock(mutex_);
    throw_failure();
    letters_[{from, to}].push_back(std::move(tensor));
    came_.notify_all();
  }

  at::Tensor collect(int from, int to, const std::string& description) {
    std::unique_lock lock(mutex_);
    auto& letters = letters_[{from, to}];
    came_.wait_for(lock, timeout_, [&] { return failure_ || !letters.empty(); });
    throw_failure();
    if (letters.empty()) fail(timeout_text(description, timeout_, {from}, static_cast<int>(visits_.size())), {from});
    throw_failure();
    at::Tensor tensor = std::move(letters.front());
    letters.pop_front();
    return tensor;
  }

  void abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    fail("aborted: " + reason, {});
  }

 private:
  void fail(const std::string& what, std::vector<int> missing) {
    if (!failure_) failure_.emplace(what, std::move(missing));
    came_.notify_all();
  }
  void throw_failure() const {
    if (failure_) throw CommunicationError(*failure_);
  }

  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<Contribution> contributions_;
  std::vector<std::uint64_t> visits_;
  std::map<std::pair<int, int>, std::deque<at::Tensor>> letters_;
  std::optional<CommunicationError> failure_;
};

class ThreadRank : public Communicator {
 public:
  ThreadRank(int rank, int size, std::shared_ptr<MeetingRoom> room)
      : Communicator(rank, size), room_(std::move(room)) {}

 private:
  void run_broadcast(const at::Tensor& tensor, int root) override {
    bring(describe(fmt::format("broadcast from rank {}", root), tensor), tensor);
    if (rank() != root) flat(tensor).copy_(flat(room_->contribution(root).input));
    part();
  }

  void run_all_reduce(const at::Tensor& tensor, Reduction reduction) override {
    bring(describe("all_reduce", tensor), tensor);
    const at::Tensor result = reduce(reduction, 0, tensor.numel());
    part();
    flat(tensor).copy_(result);
  }

  void run_all_gather(const at::Tensor& input, const at::Tensor& output) override {
    bring(describe("all_gather", input), input);
    for (int other = 0; other < size(); ++other)
      flat(output).narrow(0, other * input.numel(), input.numel()).copy_(flat(room_->contribution(other).input));
    part();
  }

  void run_reduce_scatter(const at::Tensor& input, const at::Tensor& output, Reduction reduction) override {
    bring(describe("reduce_scatter", input), input);
    const at::Tensor result = reduce(reduction, rank() * output.numel(), output.numel());
    part();
    flat(output).copy_(result);
  }

  void run_all_to_all(const at::Tensor& input, const std::vector<std::int64_t>& input_counts, const at::Tensor& output,
                      const std::vector<std::int64_t>& output_counts) override {
    room_->meet(rank(),
                Contribution{fmt::format("all_to_all of {}", c10::toString(input.scalar_type())), input, input_counts});
    room_->check_descriptions(rank());
    std::int64_t written = 0;
    for (int other = 0; other < size(); ++other) {
      const Contribution& theirs = room_->contribution(other);
      const auto own = static_cast<std::size_t>(rank());
      const std::int64_t count = theirs.counts[own];
      const std::int64_t expected = output_counts[static_cast<std::size_t>(other)];
      if (count != expected)
        throw CommunicationError(fmt::format("all_to_all: rank {} sends {} elements to rank {}, which expects {}",
                                             other, count, rank(), expected));
      std::int64_t begin = 0;
      for (std::size_t before = 0; before < own; ++before) begin += theirs.counts[before];
      if (count > 0) flat(output).narrow(0, written, count).copy_(flat(theirs.input).narrow(0, begin, count));
      written += count;
    }
    part();
  }

  void run_send(const at::Tensor& tensor, int to) override { room_->post(rank(), to, tensor.clone()); }

  void run_receive(const at::Tensor& tensor, int from) override {
    const std::string description = fmt::format("receive from rank {}", from);
    const at::Tensor came = room_->collect(from, rank(), description);
    if (came.numel() != tensor.numel() || came.scalar_type() != tensor.scalar_type())
      throw CommunicationError(mismatch_text(rank(), describe(description, tensor), from, describe("send", came)));
    flat(tensor).copy_(flat(came));
  }

  void abort_waits(const std::string& reason) override { room_->abort(reason); }

  void bring(std::string description, const at::Tensor& tensor) {
    room_->meet(rank(), Contribution{std::move(description), tensor, {}});
    room_->check_descriptions(rank());
  }
  // Nobody reads this rank's tensors any more.
  void part() { room_->meet(rank(), std::nullopt); }

  static at::Tensor flat(const at::Tensor& tensor) { return tensor.view(-1); }

  // [count] of the reduction of all inputs, from begin on.
  at::Tensor reduce(Reduction reduction, std::int64_t begin, std::int64_t count) const {
    std::vector<at::Tensor> parts;
    for (int other = 0; other < size(); ++other)
      parts.push_back(flat(room_->contribution(other).input).narrow(0, begin, count));
    return reduce_in_order(parts, reduction);
  }

  std::shared_ptr<MeetingRoom> room_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_group(int size, std::chrono::milliseconds timeout) {
  const auto room = std::make_shared<MeetingRoom>(size, timeout);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<ThreadRank>(rank, size, room));
  return ranks;
}

}  // namespace muster::communicate
