#include "train/objectives/pair_losses.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace muster::train {
namespace {

using spec::PairLoss;

constexpr double step = 1e-6;

// Slopes against differences of the loss.
void expect_slopes(const std::function<PairTerm(const OfPair&)>& loss, const OfPair& at) {
  const PairTerm found = loss(at);
  const double by_chosen =
      (loss({at.chosen + step, at.rejected}).loss - loss({at.chosen - step, at.rejected}).loss) / (2 * step);
  const double by_rejected =
      (loss({at.chosen, at.rejected + step}).loss - loss({at.chosen, at.rejected - step}).loss) / (2 * step);
  EXPECT_NEAR(found.slopes.chosen, by_chosen, 1e-6 * (1 + std::abs(by_chosen)));
  EXPECT_NEAR(found.slopes.rejected, by_rejected, 1e-6 * (1 + std::abs(by_rejected)));
}

const std::vector<OfPair> places{{0, 0}, {3, -4}, {-2, 5}, {-7, -30}, {1.5, 1.25}};

TEST(PairLosses, HaveTheSlopesOfTheirValues) {
  for (const auto& word : spec::words(PairLoss{})) {
    if (word.value == PairLoss::sft) continue;
    for (const double beta : {0.1, 0.9})
      for (const OfPair& place : places) {
        SCOPED_TRACE(word.text);
        const spec::PreferenceOptions options{.beta = beta, .label_smoothing = 0.1};
        expect_slopes([&](const OfPair& ratios) { return pair_loss(word.value, options, ratios, {3, 7}); }, place);
      }
  }
}

TEST(PairLosses, OfMeansHaveTheSlopesOfTheirValues) {
  const spec::PreferenceOptions options{.beta = 1.5, .gamma = 0.4};
  for (const OfPair& means : {OfPair{-1, -2}, OfPair{-0.1, -0.01}, OfPair{-8, -3}}) {
    expect_slopes([&](const OfPair& at) { return simpo_loss(options, at); }, means);
    expect_slopes([&](const OfPair& at) { return odds_ratio_loss(options, at); }, means);
  }
}

TEST(PairLosses, AreLn2WherePolicyAndReferenceAreTheSame) {
  for (const PairLoss kind : {PairLoss::sigmoid, PairLoss::sigmoid_norm})
    EXPECT_EQ(pair_loss(kind, {}, {0, 0}, {3, 7}).loss, std::log(2.0));
}

TEST(PairLosses, StayFiniteForAnswersThatAreCertainOrOutOfTheQuestion) {
  for (const OfPair& means : {OfPair{0, 0}, OfPair{-1e4, 0}, OfPair{0, -1e4}}) {
    const OddsTerm term = odds_ratio_loss({}, means);
    EXPECT_TRUE(std::isfinite(term.loss) && std::isfinite(term.slopes.chosen) && std::isfinite(term.slopes.rejected));
  }
  for (const double far : {-1e6, 1e6}) EXPECT_TRUE(std::isfinite(pair_loss(PairLoss::sigmoid, {}, {far, 0}, {1, 1}).loss));
}

}  // namespace
}  // namespace muster::train
