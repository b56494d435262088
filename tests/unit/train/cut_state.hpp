// A training state without a model: tensors whose numbers follow from their names, cut into parts as a strategy would.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <functional>
#include <thread>

#include "base/bit_mix.hpp"
#include "communicate/thread_group.hpp"
#include "tensor/device_ops.hpp"
#include "train/state_transfer.hpp"

namespace muster::train::testing {

// Finite, of any bits; of codes a byte. element: in the order of the model's files.
inline float number_at(std::string_view tensor, std::string_view state, std::int64_t element) {
  const std::uint64_t name = std::hash<std::string_view>()(tensor) ^ mix_bits(std::hash<std::string_view>()(state));
  const std::uint64_t bits = mix_bits(name ^ mix_bits(static_cast<std::uint64_t>(element)));
  if (state.ends_with("_codes")) return static_cast<float>(bits & 0xFFU);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) & ~(std::uint32_t{1} << 30));
}

inline model::Parameter parameter(std::size_t unit, std::vector<model::Parameter::Piece> pieces,
                                  std::optional<std::int64_t> columns, bool transposed = false) {
  model::Parameter made;
  made.unit = model::UnitId{unit};
  made.pieces = std::move(pieces);
  for (const auto& piece : made.pieces) made.rows += piece.rows;
  made.columns = columns;
  made.transposed = transposed;
  return made;
}

// Matrices and vectors, some as several tensors, some transposed, one smaller than any part, one unit of nothing else.
inline std::vector<model::Parameter> parameters() {
  return {parameter(0, {{"embedding", 301}}, 7),        parameter(1, {{"norm", 5}}, std::nullopt),
          parameter(1, {{"attention", 96}}, 31, true),  parameter(1, {{"attention.bias", 96}}, std::nullopt),
          parameter(1, {{"up", 13}, {"gate", 29}}, 40), parameter(1, {{"down", 3}}, 421, true),
          parameter(2, {{"last", 11}}, std::nullopt)};
}

// Some large enough for moments in 8 bits: blocks that end early, a tensor below another's short block, an embedding.
inline std::vector<model::Parameter> large_parameters() {
  return {parameter(0, {{"embedding", 301}}, 20),       parameter(1, {{"norm", 5}}, std::nullopt),
          parameter(1, {{"attention", 96}}, 64, true),  parameter(1, {{"key", 100}, {"value", 110}}, 41),
          parameter(1, {{"up", 128}, {"gate", 131}}, 40), parameter(1, {{"down", 3}}, 2001, true),
          parameter(2, {{"last", 5000}}, std::nullopt)};
}

// Where an element of a piece is in the tensor of the model's files.
inline std::int64_t element_of(const parallel::FlatPiece& piece, std::int64_t at) {
  const std::int64_t element = piece.first + at;
  return piece.transposed ? element % *piece.columns * piece.rows + element / *piece.columns : element;
}

class CutStrategy final : public parallel::Strategy {
 public:
  explicit CutStrategy(parallel::ShardPlace place, bool exact = false,
                       const std::vector<model::Parameter>& all = parameters())
      : place_(place) {
    for (std::size_t unit = 0; unit <= static_cast<std::size_t>(all.back().unit); ++unit) {
      const parallel::FlatLayout& layout = layouts_.emplace_back(all, model::UnitId{unit});
      const std::int64_t count = layout.part_elements(place.parts);
      const at::Tensor gradient = at::zeros({count}, exact ? at::kLong : at::kFloat);
      shards_.push_back({at::zeros({count}, at::kFloat), {gradient, {}}, layout.pieces(place.part * count, count)});
    }
  }

  bool is_whole() const override { return place_.parts == 1; }
  void begin_pass(model::PassKind kind) override { told_.push_back("begin " + word(kind)); }
  void idle_pass(model::PassKind kind) override { told_.push_back("idle " + word(kind)); }
  void abandon_pass() override { told_.push_back("abandon"); }
  void enter(model::UnitId unit) override { told_.push_back("+" + std::to_string(static_cast<std::size_t>(unit))); }
  void leave(model::UnitId unit) override { told_.push_back("-" + std::to_string(static_cast<std::size_t>(unit))); }
  tensor::GradientSum gradient(model::ParameterId) override { throw std::logic_error("not of this strategy"); }
  void gradients_complete(model::UnitId) override { throw std::logic_error("not of this strategy"); }
  parallel::ShardPlace place() const override { return place_; }
  std::span<const parallel::FlatLayout> layouts() const override { return layouts_; }
  std::span<const parallel::Shard> shards() const override { return shards_; }
  at::Tensor of_all_parts(const at::Tensor& own) override { return own.unsqueeze(0); }
  void begin_step() override {}
  void begin_last_pass() override {}
  void finish_gradients() override {}
  parallel::CommunicationTime take_communication_time() override { return {}; }
  void take_frozen(model::UnitId) override {}
  void check_ranks() const override {}
  void publish() override {}

  const std::vector<std::string>& told() const { return told_; }

 private:
  static std::string word(model::PassKind kind) {
    if (kind == model::PassKind::measure) return "measure";
    return kind == model::PassKind::learn ? "learn" : "inspect";
  }

  parallel::ShardPlace place_;
  std::vector<parallel::FlatLayout> layouts_;
  std::vector<parallel::Shard> shards_;
  std::vector<std::string> told_;
};

class TwoMoments final : public optimizer::Optimizer {
 public:
  explicit TwoMoments(const parallel::Strategy& strategy) : states_{{"first_moment", {}}, {"second_moment", {}}} {
    for (optimizer::OptimizerState& state : states_)
      for (const parallel::Shard& shard : strategy.shards()) state.of_shards.push_back(at::zeros_like(shard.master));
  }
  std::span<const optimizer::OptimizerState> states() const override { return states_; }
  void step(std::int64_t, double, double) override {}

 private:
  std::vector<optimizer::OptimizerState> states_;
};

enum class Moments { plain, coded };  // coded: of large parameters, in 8 bits where they can be

// One rank's.
struct CutState {
  explicit CutState(parallel::ShardPlace place, Moments moments = Moments::plain)
      : strategy(place, false, moments == Moments::coded ? large_parameters() : parameters()),
        ops(*tensor::make_device_ops({})),
        optimizer(make_optimizer(moments)),
        tensors(strategy, *optimizer) {}

  // use: of every number held, by its state, tensor and place in the tensor of the model's files.
  void each(const std::function<void(float& held, const std::string& tensor, const std::string& state,
                                     std::int64_t element)>& use) {
    for (std::size_t unit = 0; unit < strategy.shards().size(); ++unit)
      for (const std::string& state : tensors.states())
        for (const parallel::FlatPiece& piece : tensors.numbers(unit, strategy.place().part, state)) {
          const at::Tensor held = tensors.held(unit, state).narrow(0, piece.offset, piece.count);
          const at::Tensor numbers = held.to(at::kFloat);  // itself, but of codes
          for (std::int64_t i = 0; i < piece.count; ++i)
            use(numbers.mutable_data_ptr<float>()[i], piece.tensor, state, element_of(piece, i));
          if (!numbers.is_same(held)) held.copy_(numbers);
        }
  }
  void fill() {
    each([](float& held, const std::string& tensor, const std::string& state, std::int64_t element) {
      held = number_at(tensor, state, element);
    });
  }
  ::testing::AssertionResult is_filled(bool parameters_alone = false) {
    auto outcome = ::testing::AssertionSuccess();
    each([&](float& held, const std::string& tensor, const std::string& state, std::int64_t element) {
      const bool zero = parameters_alone && state != checkpoint::parameter_state;
      const float wanted = zero ? 0 : number_at(tensor, state, element);
      if (std::memcmp(&held, &wanted, sizeof wanted) != 0 && outcome)
        outcome = ::testing::AssertionFailure() << state << " of " << tensor << ", element " << element << ", on part "
                                                << strategy.place().part << " of " << strategy.place().parts;
    });
    return outcome;
  }

  CutStrategy strategy;
  tensor::DeviceOps ops;
  std::unique_ptr<optimizer::Optimizer> optimizer;
  StateTensors tensors;

 private:
  std::unique_ptr<optimizer::Optimizer> make_optimizer(Moments moments) {
    if (moments == Moments::plain) return std::make_unique<TwoMoments>(strategy);
    return optimizer::make_optimizer({.kind = spec::OptimizerKind::adamw_8bit}, *ops.training, strategy);
  }
};

// What every rank does, in a thread each: a state over copies of so many parts.
inline void on_ranks(int parts, int copies, const std::function<void(communicate::Communicator&, CutState&)>& work,
                     Moments moments = Moments::plain) {
  const auto ranks = communicate::make_thread_group(parts * copies, std::chrono::seconds(20));
  std::vector<std::jthread> threads;
  for (const auto& rank : ranks)
    threads.emplace_back([&, own = rank.get()] {
      CutState state({own->rank() % parts, parts, own->rank() / parts, copies}, moments);
      work(*own, state);
    });
}

}  // namespace muster::train::testing
