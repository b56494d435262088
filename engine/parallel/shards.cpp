// Sharded data parallelism: each rank holds one part of every unit, and whole units only while it computes with them.
//
// Note [Memory that two streams use]
// Gathered parameters and whole gradients are made and let go of on the stream that computes. What gathers into new
// memory comes after everything that was ordered there before; what is computed comes after the gather; and gradients
// that are being reduced are kept until the computing stream has been told to wait for that. So memory that is let go
// of can be used again at once.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "parallel/frozen_bytes.hpp"
#include "parallel/strategy.hpp"
#include "tensor/host_memory.hpp"

namespace muster::parallel {
namespace {

using model::ParameterId;
using model::PassKind;
using model::UnitId;
using Ticket = CollectiveQueue::Ticket;

std::size_t number(UnitId unit) { return static_cast<std::size_t>(unit); }
std::size_t number(ParameterId parameter) { return static_cast<std::size_t>(parameter); }

class Shards final : public Strategy {
 public:
  Shards(model::CausalModel& model, tensor::DeviceOps& ops, ShardRanks ranks, const ShardOptions& shard_options)
      : model_(model),
        training_(*ops.training),
        ranks_(ranks),
        shard_options_(shard_options),
        device_(ops.device),
        in_host_memory_(shard_options.offload && device_.is_cuda()),
        entries_(model.parameters().size()) {
    if (shard_options.exact) {
      overflow_ = at::zeros({1}, on_device(at::kLong));
      home_overflow_ = in_host_memory_ ? at::zeros({1}, at::kLong) : overflow_;
    }
    for (std::size_t unit = 0; unit < model.units(); ++unit) add_unit(UnitId{unit});
    if (in_host_memory_) staging_ = make_staging();
    queue_.emplace(device_);
    model.use_parameters(*this);
  }
  ~Shards() override { model_.use_parameters(model::resident()); }

  bool is_whole() const override { return false; }

  void begin_pass(PassKind kind) override {
    kind_ = kind;
    visits_ = model::visits(kind, units_.size(), model_.config().tied);
    next_ = completed_ = 0;
    idle_ = false;
    queue_->keep_times(kind != PassKind::measure);
    // They arrive while the pass is prepared.
    for (std::size_t i = 0; i < std::min<std::size_t>(2, visits_.size()); ++i) fetch(visits_[i]);
  }

  void idle_pass(PassKind kind) override {
    begin_pass(kind);
    abandon_pass();
  }

  void abandon_pass() override {
    idle_ = true;
    complete_what_is_due();
    while (next_ < visits_.size()) {
      const UnitId unit = visits_[next_];
      enter(unit);
      leave(unit);
      complete_what_is_due();
    }
  }

  void enter(UnitId unit) override {
    if (next_ >= visits_.size() || visits_[next_] != unit)
      throw std::logic_error(fmt::format("unit {} is visited out of turn", number(unit)));
    // What the pass before left: late enough that nothing need wait for it, long before memory is needed.
    if (next_ == 2) settle_reduction();
    // Where memory runs out on the way, nothing has been visited, and abandon_pass() does it again.
    fetch(unit);
    if (next_ + 1 < visits_.size()) fetch(visits_[next_ + 1]);
    receive(unit);
    ++next_;
    ++units_[number(unit)].visitors;
  }

  void leave(UnitId unit) override {
    if (--units_[number(unit)].visitors == 0 && !is_wanted_again(unit)) let_go(unit);
  }

  tensor::GradientSum gradient(ParameterId parameter) override {
    const auto& [unit, entry] = entries_[number(parameter)];
    if (!model_.parameters()[number(parameter)].trained) return {};
    at::Tensor& whole = units_[number(unit)].gradients;
    if (!whole.defined()) whole = no_gradients(unit);
    return {FlatLayout::view(whole, entry), overflow_};
  }

  void gradients_complete(UnitId unit) override {
    Unit& complete = units_[number(unit)];
    if (complete.part > 0) {
      if (!complete.gradients.defined()) complete.gradients = no_gradients(unit);
      const bool first = !complete.has_sum;
      if (!first && !staging_.defined()) staging_ = make_staging();
      settle_reduction();
      at::Tensor whole = std::exchange(complete.gradients, {});
      complete.has_sum = true;
      const Ticket ticket =
          queue_->add([this, unit, whole, first, last = last_pass_] { reduce(unit, whole, first, last); });
      reducing_ = Reduction{ticket, std::move(whole)};
    }
    ++completed_;
  }

  ShardPlace place() const override {
    return {ranks_.of_copy.rank(), ranks_.of_copy.size(), ranks_.of_part ? ranks_.of_part->rank() : 0,
            ranks_.of_part ? ranks_.of_part->size() : 1};
  }
  std::span<const FlatLayout> layouts() const override { return layouts_; }
  std::span<const Shard> shards() const override { return shards_; }

  at::Tensor of_all_parts(const at::Tensor& own) override {
    const at::Tensor mine = own.to(device_);
    at::Tensor all = at::empty({ranks_.of_copy.size(), mine.numel()}, mine.options());
    ranks_.of_copy.all_gather(mine, all);
    return all;
  }

  void begin_step() override {
    for (Unit& unit : units_) unit.has_sum = false;
    if (overflow_.defined()) overflow_.zero_();
    last_pass_ = false;
  }
  void begin_last_pass() override { last_pass_ = true; }

  void finish_gradients() override {
    queue_->wait();
    reducing_.reset();
    if (!overflow_.defined()) return;
    ranks_.of_copy.all_reduce(overflow_);
    if (ranks_.of_part != nullptr) ranks_.of_part->all_reduce(overflow_);
    if (in_host_memory_) home_overflow_.copy_(overflow_);
  }

  CommunicationTime take_communication_time() override { return queue_->take_times(); }
  void check_ranks() const override {
    ranks_.of_copy.check();
    if (ranks_.of_part != nullptr) ranks_.of_part->check();
  }

  void take_frozen(UnitId id) override {
    Unit& unit = units_[number(id)];
    if (unit.frozen.empty()) return;
    const at::Tensor own = unit.frozen.part(ranks_.of_copy.rank(), ranks_.of_copy.size());
    unit.frozen.release();
    unit.own_frozen = in_host_memory_ ? tensor::host_tensor(device_, own.numel(), at::kLong).copy_(own) : own;
    if (in_host_memory_) staging_ = make_staging();
  }

  void publish() override {
    for (std::size_t unit = 0; unit < units_.size(); ++unit)
      if (!units_[unit].own.is_same(shards_[unit].master)) units_[unit].own.copy_(shards_[unit].master);
  }

 private:
  struct Unit {
    explicit Unit(std::vector<at::Tensor> frozen_storages) : frozen(std::move(frozen_storages)) {}
    enum class Presence { absent, coming, here };
    std::int64_t part = 0;  // elements of each rank
    at::Tensor own;         // this rank's part as it is gathered: the master itself where types are the same
    Presence presence = Presence::absent;
    at::Tensor gathered;   // flat, from the gather on; of weights that are not plain, until these have the numbers
    FrozenBytes frozen;
    at::Tensor own_frozen;       // this rank's part of them; undefined: none are frozen
    at::Tensor gathered_frozen;  // all parts, from the gather until the weights have them
    bool adopted = false;  // the weights have the numbers
    Ticket arrival = 0;
    int visitors = 0;
    at::Tensor gradients;  // whole, flat
    bool has_sum = false;  // a pass of this step is in the shard's sum
  };
  struct Place {
    UnitId unit{};
    FlatLayout::Entry entry;
  };
  struct Reduction {
    Ticket ticket = 0;
    at::Tensor gradients;  // Note [Memory that two streams use]
  };

  void add_unit(UnitId id) {
    const FlatLayout& layout = layouts_.emplace_back(model_.parameters(), id);
    for (const FlatLayout::Entry& entry : layout.entries()) entries_[number(entry.parameter)] = {id, entry};
    Unit unit(model_.frozen_storages(id));
    unit.part = layout.part_elements(ranks_.of_copy.size());
    const auto zeros = [&](at::ScalarType type) { return zeros_at_home(unit.part, type); };
    Shard shard;
    shard.master = zeros(shard_options_.state);
    shard.gradient = {zeros(sum_type()), home_overflow_};
    shard.pieces = layout.pieces(ranks_.of_copy.rank() * unit.part, unit.part);
    const at::ScalarType type = gathered_type(layout);
    unit.own = type == shard_options_.state ? shard.master : zeros(type);
    shards_.push_back(std::move(shard));
    units_.push_back(std::move(unit));
  }

  // What is computed with, or the masters' type where some of it is wider than the rest: magnitudes of adapters.
  at::ScalarType gathered_type(const FlatLayout& layout) const {
    const bool any_wide = std::ranges::any_of(layout.entries(), [&](const FlatLayout::Entry& entry) {
      const model::Parameter& parameter = model_.parameters()[number(entry.parameter)];
      return !parameter.columns && parameter.vector.scalar_type() != model_.type();
    });
    return any_wide ? shard_options_.state : model_.type();
  }
  at::ScalarType sum_type() const { return shard_options_.exact ? at::kLong : shard_options_.state; }
  at::TensorOptions on_device(at::ScalarType type) const { return at::TensorOptions().dtype(type).device(device_); }
  // Shards in host memory are pinned, and exactly as large as they must be.
  at::Tensor zeros_at_home(std::int64_t count, at::ScalarType type) const {
    if (!in_host_memory_) return at::zeros({count}, on_device(type));
    return tensor::host_tensor(device_, count, type).zero_();
  }
  at::Tensor make_staging() const {
    std::int64_t largest = 0;
    const auto width = static_cast<std::int64_t>(std::max(
        {c10::elementSize(sum_type()), c10::elementSize(model_.type()), c10::elementSize(shard_options_.state)}));
    for (const Unit& unit : units_) {
      const std::int64_t frozen = unit.own_frozen.defined() ? static_cast<std::int64_t>(unit.own_frozen.nbytes()) : 0;
      largest = std::max({largest, unit.part * width, frozen});
    }
    return at::empty({largest}, on_device(at::kByte));
  }

  at::Tensor no_gradients(UnitId unit) const {
    return at::zeros({units_[number(unit)].part * ranks_.of_copy.size()}, on_device(sum_type()));
  }

  // Units are complete from the last one on, each after its last visit, and the embedding at the end.
  void complete_what_is_due() {
    if (kind_ != PassKind::learn) return;
    const std::size_t head = units_.size() + (model_.config().tied ? 1 : 0);  // visits up to the head's last one
    std::size_t due = next_ < head ? 0 : next_ - head + 1;
    if (next_ == visits_.size()) due = units_.size();
    while (completed_ < due) gradients_complete(UnitId{units_.size() - 1 - completed_});
  }

  // The tied embedding waits for the head, and the last block's parameters for its backward pass, which comes next.
  bool is_wanted_again(UnitId unit) const {
    const auto from = visits_.begin() + static_cast<std::ptrdiff_t>(next_);
    const auto again = std::find(from, visits_.end(), unit);
    return again != visits_.end() && (shard_options_.keeps_parameters || unit == UnitId{0} || again - from <= 2);
  }

  void fetch(UnitId id) {
    Unit& unit = units_[number(id)];
    if (unit.presence != Unit::Presence::absent) return;
    // Where memory runs out, nothing has begun.
    at::Tensor gathered = room_for_all(unit.own), gathered_frozen = room_for_all(unit.own_frozen);
    unit.presence = Unit::Presence::coming;
    unit.arrival = gather(unit.own, gathered);
    if (gathered_frozen.defined()) unit.arrival = gather(unit.own_frozen, gathered_frozen);
    unit.gathered = std::move(gathered);
    unit.gathered_frozen = std::move(gathered_frozen);
  }

  at::Tensor room_for_all(const at::Tensor& own) const {
    if (!own.defined()) return {};
    return at::empty({own.numel() * ranks_.of_copy.size()}, on_device(own.scalar_type()));
  }

  Ticket gather(const at::Tensor& own, const at::Tensor& all) {
    return queue_->add([this, own, all] {
      at::Tensor brought = own;
      if (in_host_memory_) {
        brought = staged(own.numel(), own.scalar_type());
        brought.copy_(own, true);
      }
      ranks_.of_copy.all_gather(brought, all);
    });
  }

  void receive(UnitId id) {
    Unit& unit = units_[number(id)];
    if (unit.presence != Unit::Presence::coming) return;
    queue_->wait(unit.arrival);
    unit.presence = Unit::Presence::here;
    if (!idle_) adopt(id);
    if (idle_ || !training_.has_plain_weights()) unit.gathered.reset();
    unit.gathered_frozen.reset();
  }

  void adopt(UnitId id) {
    Unit& unit = units_[number(id)];
    unit.adopted = true;
    if (unit.own_frozen.defined()) unit.frozen.adopt(unit.gathered_frozen);
    for (const FlatLayout::Entry& entry : layouts_[number(id)].entries())
      model_.adopt(entry.parameter, FlatLayout::view(unit.gathered, entry));
  }

  void let_go(UnitId id) {
    Unit& unit = units_[number(id)];
    unit.presence = Unit::Presence::absent;
    unit.gathered.reset();
    unit.gathered_frozen.reset();
    if (!std::exchange(unit.adopted, false)) return;
    if (unit.own_frozen.defined()) unit.frozen.release();
    for (const FlatLayout::Entry& entry : layouts_[number(id)].entries()) {
      const model::Parameter& parameter = model_.parameters()[number(entry.parameter)];
      at::Tensor vector = parameter.vector;
      if (parameter.columns)
        tensor::TrainingOps::release(parameter.weight);
      else
        vector.set_(at::empty({0}, vector.options()));
    }
  }

  void settle_reduction() {
    if (!reducing_) return;
    queue_->wait(reducing_->ticket);
    reducing_.reset();
  }

  // ---- on the queue's thread ----

  // Memory for one part, of the work that runs.
  at::Tensor staged(std::int64_t count, at::ScalarType type) const {
    return staging_.narrow(0, 0, count * static_cast<std::int64_t>(c10::elementSize(type))).view(type);
  }

  void reduce(UnitId id, const at::Tensor& whole, bool first, bool last) {
    at::Tensor& sum = shards_[number(id)].gradient.values;
    const bool straight = first && !in_host_memory_;
    at::Tensor part = straight ? sum : staged(sum.numel(), whole.scalar_type());
    ranks_.of_copy.reduce_scatter(whole, part);
    // Sums in host memory are out of reach of a communicator of GPUs.
    if (in_host_memory_ && ranks_.of_part != nullptr) ranks_.of_part->all_reduce(part);
    if (!straight && first) sum.copy_(part);
    if (!straight && !first) sum.add_(part.to(sum.device()));
    if (!in_host_memory_ && last && ranks_.of_part != nullptr) ranks_.of_part->all_reduce(sum);
  }

  model::CausalModel& model_;
  tensor::TrainingOps& training_;
  ShardRanks ranks_;
  ShardOptions shard_options_;
  at::Device device_;
  bool in_host_memory_;                // shards, while the model is on a GPU
  std::vector<FlatLayout> layouts_;    // by unit
  std::vector<Shard> shards_;          // by unit
  std::vector<Unit> units_;            // by unit
  std::vector<Place> entries_;         // by parameter
  at::Tensor overflow_;                // of exact sums, on the device
  at::Tensor home_overflow_;           // next to the shards
  PassKind kind_ = PassKind::measure;  // of the present pass
  std::vector<UnitId> visits_;         // of the present pass
  std::size_t next_ = 0;               // of these
  std::size_t completed_ = 0;          // units whose gradients are complete in it
  bool idle_ = false;                  // nothing is computed in the present pass
  bool last_pass_ = false;
  at::Tensor staging_;                 // of parts on their way, where they need memory of their own
  std::optional<Reduction> reducing_;  // the latest
  std::optional<CollectiveQueue> queue_;
};

}  // namespace

std::unique_ptr<Strategy> make_shards(model::CausalModel& model, tensor::DeviceOps& ops, ShardRanks ranks,
                                      const ShardOptions& shard_options) {
  return std::make_unique<Shards>(model, ops, ranks, shard_options);
}

}  // namespace muster::parallel
