// Data parallelism: every rank holds everything.
#include <optional>

#include "parallel/strategy.hpp"

namespace muster::parallel {
namespace {

using model::ParameterId;
using model::UnitId;

class Replicas final : public Strategy {
 public:
  Replicas(model::CausalModel& model, tensor::DeviceOps& ops, communicate::Communicator& ranks, bool exact,
           at::ScalarType state)
      : model_(model),
        training_(*ops.training),
        ranks_(ranks),
        state_(state),
        shares_masters_(replicas_share_masters(ops, state)),
        sums_(model.parameters().size()),
        masters_(model.parameters().size()) {
    const auto on_device = at::TensorOptions().device(ops.device);
    const at::Tensor overflow = exact ? at::zeros({1}, on_device.dtype(at::kLong)) : at::Tensor();
    for (std::size_t unit = 0; unit < model.units(); ++unit) add_unit(UnitId{unit}, on_device, overflow);
    overflow_ = overflow;
    if (ranks.size() > 1) queue_.emplace(ops.device);
  }

  void enter(UnitId) override {}
  void leave(UnitId) override {}
  tensor::GradientSum gradient(ParameterId parameter) override { return sums_[static_cast<std::size_t>(parameter)]; }

  void gradients_complete(UnitId unit) override {
    if (last_pass_) reduce(static_cast<std::size_t>(unit));
  }

  ShardPlace place() const override { return {0, 1, ranks_.rank(), ranks_.size()}; }
  std::span<const FlatLayout> layouts() const override { return layouts_; }
  std::span<const Shard> shards() const override { return shards_; }
  at::Tensor of_all_parts(const at::Tensor& own) override { return own.unsqueeze(0); }

  void begin_step() override {
    for (const Shard& shard : shards_) training_.clear(shard.gradient);
    if (overflow_.defined()) overflow_.zero_();
    reduced_.assign(shards_.size(), false);
    last_pass_ = false;
  }
  void begin_last_pass() override { last_pass_ = true; }

  void finish_gradients() override {
    // In the order of a backward pass, which is that of ranks that had one.
    for (std::size_t unit = shards_.size(); unit-- > 1;) reduce(unit);
    reduce(0);
    if (!queue_) return;
    if (overflow_.defined()) sum_over_ranks(overflow_);
    queue_->wait();
  }

  CommunicationTime take_communication_time() override { return queue_ ? queue_->take_times() : CommunicationTime{}; }

  void check_ranks() const override { ranks_.check(); }

  void take_frozen(UnitId) override {}

  void publish() override {
    if (shares_masters_) return;
    for (std::size_t i = 0; i < masters_.size(); ++i)
      if (masters_[i].defined()) model_.assign(ParameterId{i}, masters_[i]);
  }

 private:
  void add_unit(UnitId unit, const at::TensorOptions& on_device, const at::Tensor& overflow) {
    const FlatLayout& layout = layouts_.emplace_back(model_.parameters(), unit);
    Shard shard;
    shard.master = at::zeros({layout.elements()}, on_device.dtype(state_));
    shard.gradient = {at::zeros({layout.elements()}, on_device.dtype(overflow.defined() ? at::kLong : state_)),
                      overflow};
    shard.pieces = layout.pieces(0, layout.elements());
    for (const FlatLayout::Entry& entry : layout.entries()) {
      const auto at = static_cast<std::size_t>(entry.parameter);
      sums_[at] = {FlatLayout::view(shard.gradient.values, entry), overflow};
      masters_[at] = FlatLayout::view(shard.master, entry);
      if (shares_masters_) model_.adopt(entry.parameter, masters_[at]);
    }
    shards_.push_back(std::move(shard));
  }

  void reduce(std::size_t unit) {
    if (reduced_[unit]) return;
    reduced_[unit] = true;
    if (queue_ && shards_[unit].master.numel() > 0) sum_over_ranks(shards_[unit].gradient.values);
  }
  void sum_over_ranks(const at::Tensor& tensor) {
    queue_->add([this, tensor] { ranks_.all_reduce(tensor); });
  }

  model::CausalModel& model_;
  tensor::TrainingOps& training_;
  communicate::Communicator& ranks_;
  at::ScalarType state_;
  bool shares_masters_;
  std::vector<FlatLayout> layouts_;        // by unit
  std::vector<Shard> shards_;              // by unit
  std::vector<tensor::GradientSum> sums_;  // by parameter; not wanted of frozen ones
  std::vector<at::Tensor> masters_;        // by parameter; undefined of frozen ones
  at::Tensor overflow_;                    // of exact sums
  std::vector<bool> reduced_;              // by unit, in this step
  bool last_pass_ = false;
  std::optional<CollectiveQueue> queue_;  // absent: one rank
};

}  // namespace

bool replicas_share_masters(const tensor::DeviceOps& ops, at::ScalarType state) {
  return state == at::kBFloat16 && ops.training->has_plain_weights();
}

std::unique_ptr<Strategy> make_replicas(model::CausalModel& model, tensor::DeviceOps& ops,
                                        communicate::Communicator& ranks, bool exact, at::ScalarType state) {
  return std::make_unique<Replicas>(model, ops, ranks, exact, state);
}

}  // namespace muster::parallel
