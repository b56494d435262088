#include "train/find_nonfinite.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "cut_state.hpp"
#include "model/random_source.hpp"
#include "small_model.hpp"
#include "tensor/device_ops.hpp"
#include "train/objective_pass.hpp"
#include "train/objectives/supervised.hpp"

namespace muster::train {
namespace {

using model::ParameterId;
using model::UnitId;
using testing::CutState;
using testing::CutStrategy;
using testing::small_model;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// One pass over the units from the head on; changes: gradients of parameters.
void pass(PlainGradients& gradients, const std::vector<std::pair<std::size_t, float>>& changes) {
  gradients.begin_pass(model::PassKind::learn);
  for (const auto& [parameter, value] : changes)
    gradients.gradient(ParameterId{parameter}).values.view({-1})[0] = value;
  for (std::size_t unit = 3; unit-- > 0;) gradients.gradients_complete(UnitId{unit});
}

TEST(PlainGradients, NameTheBadTensorThatIsNearestToTheHeadWhicheverPassHasIt) {
  CutStrategy strategy({0, 2, 0, 1});
  PlainGradients gradients(strategy, at::kCPU);
  pass(gradients, {{0, 1.0F}, {4, 1e30F}, {6, 2.0F}});
  EXPECT_EQ(gradients.find_nonfinite(), std::nullopt);
  pass(gradients, {{0, nan}});
  EXPECT_EQ(gradients.find_nonfinite(), 0);
  pass(gradients, {{5, nan}});
  EXPECT_EQ(gradients.find_nonfinite(), 6);  // "down": "up" and "gate" are one parameter
  pass(gradients, {{3, nan}, {5, nan}});
  EXPECT_EQ(gradients.find_nonfinite(), 3);
  pass(gradients, {{6, nan}});
  EXPECT_EQ(gradients.find_nonfinite(), 7);
  pass(gradients, {{6, 0.0F}});
  EXPECT_EQ(gradients.find_nonfinite(), 7);
}

TEST(PlainGradients, AreWholeAndZeroAtTheBeginningOfEveryPassWhateverPartIsHeld) {
  CutStrategy strategy({1, 4, 0, 1});
  PlainGradients gradients(strategy, at::kCPU);
  for (int i = 0; i < 2; ++i) {
    const tensor::GradientSum sum = gradients.gradient(ParameterId{4});
    EXPECT_FALSE(sum.exact());
    EXPECT_EQ(sum.values.sizes(), (at::IntArrayRef{42, 40}));
    EXPECT_EQ(sum.values.abs().max().item<float>(), 0);
    sum.values.fill_(1);
    gradients.gradients_complete(UnitId{1});
  }
}

TEST(PlainGradients, AreBadWhereAnExactSumCouldNotHoldThem) {
  CutStrategy plain({0, 1, 0, 1}), exact({0, 1, 0, 1}, true);
  PlainGradients of_plain(plain, at::kCPU), of_exact(exact, at::kCPU);
  for (PlainGradients* gradients : {&of_plain, &of_exact}) pass(*gradients, {{1, 70000.0F}});
  EXPECT_EQ(of_plain.find_nonfinite(), std::nullopt);
  EXPECT_EQ(of_exact.find_nonfinite(), 1);
}

// Whether with rows or without: in a pass that learns the others would wait for this rank's sums.
TEST(PlainGradients, AreOfPassesInWhichNothingIsSummedOverRanks) {
  CutStrategy strategy({0, 2, 0, 1});
  PlainGradients gradients(strategy, at::kCPU);
  gradients.begin_pass(model::PassKind::learn);
  gradients.idle_pass(model::PassKind::learn);
  gradients.abandon_pass();
  EXPECT_EQ(strategy.told(), (std::vector<std::string>{"begin inspect", "idle inspect", "abandon"}));
}

TEST(FirstBad, IsAParameterBeforeTheLossAndTheLossBeforeAGradient) {
  CutState state({1, 2, 0, 1});
  PlainGradients gradients(state.strategy, at::kCPU);
  const auto found = [&](bool bad_loss) { return find_nonfinite(state.tensors, state.strategy, bad_loss, gradients); };
  EXPECT_EQ(found(false).kind, BadTensor::Kind::none);
  pass(gradients, {{2, nan}});
  EXPECT_EQ(describe(found(false), state.tensors), "the gradient of attention");
  EXPECT_EQ(describe(found(true), state.tensors), "the loss");
  const parallel::FlatPiece piece = state.strategy.shards()[1].pieces.back();
  state.strategy.shards()[1].master[piece.offset + piece.count - 1] = nan;
  EXPECT_EQ(describe(found(true), state.tensors), piece.tensor);
}

TEST(FirstBad, OfAllRanksIsWhatComesFirstInAPassAndThenTheLowestRank) {
  using Kind = BadTensor::Kind;
  const auto agree = [](const std::vector<BadTensor>& found) {
    std::vector<std::optional<BadOnRank>> agreed(found.size());
    const auto ranks = communicate::make_thread_group(static_cast<int>(found.size()), std::chrono::seconds(20));
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < found.size(); ++i)
        threads.emplace_back([&, i] { agreed[i] = agree_on_bad(found[i], *ranks[i], at::kCPU); });
    }
    for (const auto& other : agreed) {
      EXPECT_EQ(other.has_value(), agreed[0].has_value());
      EXPECT_EQ(other.value_or(BadOnRank{}).rank, agreed[0].value_or(BadOnRank{}).rank);
    }
    return agreed[0];
  };
  EXPECT_FALSE(agree({{}, {}}));
  EXPECT_EQ(agree({{Kind::gradient, 1}, {Kind::loss, 0}, {Kind::parameter, 5}, {Kind::parameter, 2}})->rank, 2);
  EXPECT_EQ(agree({{}, {Kind::gradient, 4}, {Kind::loss, 0}, {Kind::loss, 0}})->rank, 2);
  EXPECT_EQ(agree({{}, {Kind::gradient, 4}, {Kind::gradient, 1}})->bad.tensor, 4);
}

// What two ranks agree on, the second of which has no rows, over a sharded model. spoiled: a tensor of which the second
// one holds a bad element; empty: none.
std::optional<std::string> search(const std::string& spoiled) {
  const auto ranks = communicate::make_thread_group(2, std::chrono::seconds(20));
  std::optional<std::string> agreed;
  std::vector<std::jthread> threads;
  for (const auto& rank : ranks)
    threads.emplace_back([&, own = rank.get()] {
      const at::NoGradGuard forward_only;
      const spec::ModelConfig config = small_model();
      auto ops = *tensor::make_device_ops({});
      auto model = model::CausalModel::unfilled(config, ops, at::kFloat, model::Memory::later);
      const auto strategy = parallel::make_shards(model, ops, {*own}, {.exact = true});
      const testing::TwoMoments optimizer(*strategy);
      const StateTensors state(*strategy, optimizer);
      ASSERT_TRUE(state.read(reader_of(*model::make_random_source(config, 1))));
      if (!spoiled.empty())
        if (const auto held = state.find(spoiled, 1); held && own->rank() == 1)
          state.held(held->unit, "parameter")[held->piece.offset + held->piece.count - 1] = nan;
      strategy->publish();
      PlainGradients gradients(*strategy, at::kCPU);
      data::MicroBatch batch;
      batch.tokens = {1, 2, 3};
      batch.trained_rows = {0, 1};
      batch.targets = {2, 3};
      batch.parts = {3};
      if (own->rank() == 1) gradients.idle_pass(model::PassKind::learn);
      if (own->rank() == 0) ObjectivePass(make_supervised(), model, ops, false).learn(batch, {1e30}, gradients);
      const BadTensor bad = find_nonfinite(state, *strategy, false, gradients);
      const auto found = agree_on_bad(bad, *own, at::kCPU);
      if (own->rank() == 0 && found) agreed = std::to_string(found->rank) + ": " + describe(found->bad, state);
    });
  threads.clear();
  return agreed;
}

TEST(FirstBad, IsFoundOverShardsWhileARankHasNoRows) {
  EXPECT_EQ(search(""), "0: the gradient of model.norm.weight");  // too large for an exact sum
  EXPECT_EQ(search("model.layers.1.mlp.down_proj.weight"), "1: model.layers.1.mlp.down_proj.weight");
}

}  // namespace
}  // namespace muster::train
