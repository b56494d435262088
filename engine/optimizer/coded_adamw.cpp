#include "optimizer/coded_adamw.hpp"

#include "checkpoint/logical_tensor.hpp"
#include "spec/coded_states.hpp"

namespace muster::optimizer {
namespace {

using model::UnitId;
using parallel::FlatPiece;

static_assert(spec::coded_state_block == tensor::coded_moment_block);
static_assert(parallel::flat_alignment % spec::coded_state_block == 0, "a part begins within a block");

at::ScalarType type_of(const OptimizerState& state, const parallel::Shard& shard) {
  if (state.extent == StateExtent::plain) return shard.master.scalar_type();
  return checkpoint::form_of(state.name).type == spec::ElementType::uint8 ? at::kByte : at::kFloat;
}

OptimizerState zeros_of(const parallel::Strategy& strategy, std::string name, StateExtent extent) {
  OptimizerState state{std::move(name), {}, extent};
  const auto shards = strategy.shards();
  for (std::size_t unit = 0; unit < shards.size(); ++unit) {
    std::int64_t count = 0;
    for (const FlatPiece& numbers : numbers_of(state, UnitId{unit}, shards[unit].pieces)) count += numbers.count;
    state.of_shards.push_back(at::zeros({count}, shards[unit].master.options().dtype(type_of(state, shards[unit]))));
  }
  return state;
}

// What a step of one tensor's part takes.
struct SteppedPiece {
  at::Tensor master;
  tensor::GradientSum gradient;
};

SteppedPiece part_of(const parallel::Shard& shard, const FlatPiece& piece) {
  return {shard.master.narrow(0, piece.offset, piece.count),
          {shard.gradient.values.narrow(0, piece.offset, piece.count), shard.gradient.overflow}};
}

// A tensor at a time, since blocks are counted from a tensor's beginning.
class CodedAdamW final : public Optimizer {
 public:
  CodedAdamW(const OptimizerSettings& settings, tensor::TrainingOps& training, const parallel::Strategy& strategy)
      : settings_(settings), training_(training), strategy_(strategy) {
    for (const std::string moment : {"first_moment", "second_moment"}) {
      states_.push_back(zeros_of(strategy, moment, StateExtent::plain));
      states_.push_back(zeros_of(strategy, moment + "_codes", StateExtent::coded));
      states_.push_back(zeros_of(strategy, moment + "_scales", StateExtent::coded));
    }
  }

  std::span<const OptimizerState> states() const override { return states_; }

  void step(std::int64_t number, double rate, double gradient_scale) override {
    const tensor::AdamWStep step = adamw_step(settings_, number, rate, gradient_scale);
    for (std::size_t unit = 0; unit < strategy_.shards().size(); ++unit) {
      step_plain(unit, step);
      step_coded(unit, step);
    }
  }

 private:
  enum Place : std::size_t { plain, codes, scales };
  static constexpr std::size_t places = 3;

  // The pieces of a unit that have 8-bit states, or those that have none.
  std::vector<FlatPiece> stepped(std::size_t unit, bool coded) const {
    std::vector<FlatPiece> pieces = strategy_.shards()[unit].pieces;
    std::erase_if(pieces, [&](const FlatPiece& piece) { return has_coded_states(piece, UnitId{unit}) != coded; });
    return pieces;
  }
  // A state's numbers of each of these pieces.
  std::vector<at::Tensor> held(std::size_t unit, std::size_t moment, Place place) const {
    const OptimizerState& state = states_[moment * places + place];
    std::vector<at::Tensor> parts;
    for (const FlatPiece& numbers : numbers_of(state, UnitId{unit}, strategy_.shards()[unit].pieces))
      parts.push_back(state.of_shards[unit].narrow(0, numbers.offset, numbers.count));
    return parts;
  }

  void step_plain(std::size_t unit, const tensor::AdamWStep& step) {
    const auto first = held(unit, 0, plain), second = held(unit, 1, plain);
    const std::vector<FlatPiece> pieces = stepped(unit, false);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto [master, gradient] = part_of(strategy_.shards()[unit], pieces[i]);
      training_.adamw(master, first[i], second[i], gradient, step);
    }
  }

  void step_coded(std::size_t unit, const tensor::AdamWStep& step) {
    const auto first = held(unit, 0, codes), first_scales = held(unit, 0, scales);
    const auto second = held(unit, 1, codes), second_scales = held(unit, 1, scales);
    const std::vector<FlatPiece> pieces = stepped(unit, true);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto [master, gradient] = part_of(strategy_.shards()[unit], pieces[i]);
      training_.adamw(master, tensor::CodedMoment{first[i], first_scales[i]},
                      tensor::CodedMoment{second[i], second_scales[i]}, gradient, step);
    }
  }

  OptimizerSettings settings_;
  tensor::TrainingOps& training_;
  const parallel::Strategy& strategy_;
  std::vector<OptimizerState> states_;  // of the first moment by Place, then of the second
};

}  // namespace

bool has_coded_states(const FlatPiece& piece, UnitId unit) {
  const bool embedding = unit == UnitId{0};
  return spec::has_coded_states(piece.rows * piece.columns.value_or(1), embedding) &&
         (piece.offset - piece.first) % spec::coded_state_block == 0;
}

std::vector<FlatPiece> numbers_of(const OptimizerState& state, UnitId unit, const std::vector<FlatPiece>& pieces) {
  if (state.extent == StateExtent::shard) return pieces;
  const std::int64_t block = checkpoint::form_of(state.name).block;
  std::vector<FlatPiece> numbers;
  std::int64_t offset = 0;
  for (const FlatPiece& piece : pieces) {
    if (has_coded_states(piece, unit) != (state.extent == StateExtent::coded)) continue;
    FlatPiece part = piece;
    part.first = piece.first / block;
    part.count = (piece.count + block - 1) / block;
    part.offset = offset;
    offset += part.count;
    numbers.push_back(std::move(part));
  }
  return numbers;
}

tensor::AdamWStep adamw_step(const OptimizerSettings& settings, std::int64_t number, double rate,
                             double gradient_scale) {
  return {.rate = rate,
          .beta1 = settings.beta1,
          .beta2 = settings.beta2,
          .epsilon = settings.epsilon,
          .decay = settings.weight_decay,
          .step = number,
          .gradient_scale = gradient_scale};
}

std::unique_ptr<Optimizer> make_coded_adamw(const OptimizerSettings& settings, tensor::TrainingOps& training,
                                            const parallel::Strategy& strategy) {
  return std::make_unique<CodedAdamW>(settings, training, strategy);
}

}  // namespace muster::optimizer
