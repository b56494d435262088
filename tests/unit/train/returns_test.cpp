// What tokens of answers were worth against what was expected, and what is minimised over values. Against verl's formulas:
// tests/peer/policies.
#include <gtest/gtest.h>

#include <cmath>

#include "train/objectives/value_loss.hpp"
#include "train/rollouts/returns.hpp"

namespace muster::train {
namespace {

Rollout answer(std::optional<double> reward, std::vector<float> values, bool ended = true) {
  Rollout made{.ended = ended, .reward = reward, .parts = {reward}};
  made.tokens.assign(values.size(), 1);
  made.log_probabilities.assign(values.size(), -1.0f);
  made.values = std::move(values);
  return made;
}

spec::CriticOptions options_of(double discount, double smoothing) {
  spec::CriticOptions options;
  options.discount = discount;
  options.smoothing = smoothing;
  options.whitens = false;
  return options;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-12) << i;
}

TEST(TokenAdvantages, AreWhatCameMoreThanWasExpectedSmoothedBackwards) {
  std::vector<Rollout> answers{answer(2, {0.5f, 0.25f, 1.0f})};
  give_token_advantages(answers, options_of(0.5, 0.5), 0);
  // Surprises: 0.125 − 0.5, 0.5 − 0.25, 2 − 1.
  expect_near(answers[0].token_advantages, {-0.375 + 0.25 * 0.5, 0.25 + 0.25, 1});
  expect_near(answers[0].returns, {0.25, 0.75, 2});
  EXPECT_NEAR(answers[0].advantage, (-0.25 + 0.5 + 1) / 3, 1e-12);
}

TEST(TokenAdvantages, WithNothingDiscountedOrSmoothedAreTheRewardLessTheValue) {
  std::vector<Rollout> answers{answer(2, {0.5f, 0.25f, 1.0f})};
  give_token_advantages(answers, options_of(1, 1), 0);
  expect_near(answers[0].token_advantages, {1.5, 1.75, 1});
  expect_near(answers[0].returns, {2, 2, 2});
}

TEST(TokenAdvantages, PayAtEachTokenForLeavingTheReference) {
  for (const auto estimate : {spec::DivergenceEstimate::k1, spec::DivergenceEstimate::k3}) {
    std::vector<Rollout> answers{answer(1, {0, 0})};
    answers[0].reference = {-1.5f, -0.75f};
    auto options = options_of(0, 0);
    options.divergence = estimate;
    give_token_advantages(answers, options, 0.1);
    const bool plain = estimate == spec::DivergenceEstimate::k1;
    const double first = plain ? 0.5 : std::exp(-0.5) + 0.5 - 1, second = plain ? -0.25 : std::exp(0.25) - 0.25 - 1;
    expect_near(answers[0].token_advantages, {-0.1 * first, 1 - 0.1 * second});
  }
}

TEST(TokenAdvantages, ChargeAnAnswerThatCameToNoEnd) {
  std::vector<Rollout> answers{answer(1, {0}, false), answer(1, {0}, true)};
  auto options = options_of(1, 1);
  options.missing_end_penalty = 0.75;
  give_token_advantages(answers, options, 0);
  EXPECT_DOUBLE_EQ(answers[0].token_advantages[0], 0.25);
  EXPECT_DOUBLE_EQ(answers[1].token_advantages[0], 1);
}

TEST(TokenAdvantages, OfARoundHaveMeanZeroAndVarianceOneWhileReturnsStay) {
  std::vector<Rollout> answers{answer(1, {0.5f, 0}), answer(3, {0, 1, 0.25f}), answer(std::nullopt, {1, 2})};
  std::vector<Rollout> plain = answers;
  auto options = options_of(0.9, 0.8);
  give_token_advantages(plain, options, 0);
  options.whitens = true;
  give_token_advantages(answers, options, 0);
  double sum = 0, squares = 0;
  for (const Rollout& one : answers)
    for (const double advantage : one.token_advantages) sum += advantage, squares += advantage * advantage;
  EXPECT_NEAR(sum, 0, 1e-12);
  EXPECT_NEAR(squares / 4, 1, 1e-7);
  EXPECT_EQ(answers[0].returns, plain[0].returns);
  EXPECT_TRUE(answers[2].token_advantages.empty() && answers[2].returns.empty());
}

TEST(TokenAdvantages, OfASingleTokenAreNumbers) {
  std::vector<Rollout> answers{answer(1, {0})};
  auto options = options_of(1, 1);
  options.whitens = true;
  give_token_advantages(answers, options, 0);
  EXPECT_EQ(answers[0].token_advantages, std::vector<double>{0});
}

double number_of(const std::vector<wire::NamedNumber>& metrics, std::string_view name) {
  for (const wire::NamedNumber& metric : metrics)
    if (metric.name == name) return metric.value;
  return std::nan("");
}

TEST(Earnings, AreMeansOverAnswersThatWereJudged) {
  std::vector<Rollout> answers{answer(1, {0, 0}), answer(4, {0}), answer(std::nullopt, {0})};
  answers[0].reference = {-1.5f, -1.25f};
  answers[1].reference = {-2.0f};
  answers[2].reference = {-9.0f};
  const auto metrics = earnings_of(answers, options_of(1, 1), 0.1);
  EXPECT_DOUBLE_EQ(number_of(metrics, "objective/kl"), (0.75 + 1) / 2);
  EXPECT_DOUBLE_EQ(number_of(metrics, "objective/entropy"), 1.5);
  EXPECT_DOUBLE_EQ(number_of(metrics, "objective/scores"), 2.5);
  EXPECT_DOUBLE_EQ(number_of(metrics, "objective/non_score_reward"), -0.0875);
  EXPECT_DOUBLE_EQ(number_of(metrics, "objective/rlhf_reward"), 2.4125);
  EXPECT_DOUBLE_EQ(number_of(metrics, "objective/kl_coef"), 0.1);
}

TEST(DivergenceWeight, FollowsItsTargetByAFifthAtMost) {
  std::vector<Rollout> answers(10, answer(1, {0}));
  for (Rollout& one : answers) one.reference = {-2.0f};  // 1 each
  auto options = options_of(1, 1);
  EXPECT_EQ(next_divergence_weight(answers, options, 0.5), 0.5);
  options.divergence_horizon = 100;
  options.divergence_target = 0.9;
  EXPECT_NEAR(next_divergence_weight(answers, options, 0.5), 0.5 * (1 + (1 / 0.9 - 1) / 10), 1e-12);
  options.divergence_target = 0.1;
  EXPECT_NEAR(next_divergence_weight(answers, options, 0.5), 0.5 * 1.02, 1e-12);
  options.divergence_target = 10;
  EXPECT_NEAR(next_divergence_weight(answers, options, 0.5), 0.5 * 0.98, 1e-12);
}

TEST(ValueLoss, IsHalfTheSquareOfTheError) {
  const ValueTerm term = value_loss(1.5, 0, 1, std::nullopt);
  EXPECT_DOUBLE_EQ(term.loss, 0.125);
  EXPECT_DOUBLE_EQ(term.slope, 0.5);
}

TEST(ValueLoss, LeavesAValueAloneThatMovedFarTowardsWhatWasEarned) {
  const ValueTerm towards = value_loss(0.5, 0, 1, 0.2);
  EXPECT_DOUBLE_EQ(towards.loss, 0.32);
  EXPECT_EQ(towards.slope, 0);
  EXPECT_TRUE(towards.clipped);
  const ValueTerm away = value_loss(-0.5, 0, 1, 0.2);
  EXPECT_DOUBLE_EQ(away.loss, 1.125);
  EXPECT_DOUBLE_EQ(away.slope, -1.5);
  const ValueTerm near = value_loss(0.1, 0, 1, 0.2);
  EXPECT_DOUBLE_EQ(near.slope, -0.9);
  EXPECT_FALSE(near.clipped);
}

}  // namespace
}  // namespace muster::train
