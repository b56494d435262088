#include "tensor/token_choice.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tensor/device_ops.hpp"

namespace muster::tensor {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

std::vector<at::Device> devices() {
  std::vector<at::Device> found{at::Device(at::kCPU)};
  if (at::hasCUDA()) found.emplace_back(at::kCUDA, 0);
  return found;
}

DeviceOps arithmetic_of(const at::Device& device, int threads = 2) {
  DeviceOptions options;
  options.device = device;
  options.threads = threads;
  auto made = make_device_ops(options);
  EXPECT_TRUE(made) << (made ? "" : made.error().what);
  return std::move(*made);
}

class TokenChoices : public testing::TestWithParam<at::Device> {
 protected:
  TokenChoices() : ops_(arithmetic_of(GetParam())) {}

  std::vector<ChosenToken> choose(const SamplingRules& rules, const at::Tensor& logits,
                                  const std::vector<TokenQuery>& queries) {
    return ops_.token_choice->choose(rules, logits.to(GetParam()), queries);
  }
  ChosenToken choose_one(const SamplingRules& rules, const std::vector<float>& logits, const TokenQuery& query = {}) {
    return choose(rules, at::tensor(logits).unsqueeze(0), {query})[0];
  }
  // What 1,000 evenly spread chances choose.
  std::set<std::int32_t> drawable(const SamplingRules& rules, const std::vector<float>& logits) {
    std::vector<TokenQuery> queries(1000);
    for (std::size_t i = 0; i < queries.size(); ++i) queries[i].uniform = (static_cast<double>(i) + 0.5) / 1000;
    const at::Tensor rows = at::tensor(logits).unsqueeze(0).repeat({1000, 1});
    std::set<std::int32_t> found;
    for (const ChosenToken& chosen : choose(rules, rows, queries)) found.insert(chosen.token);
    return found;
  }

  DeviceOps ops_;
};

using Tokens = std::set<std::int32_t>;

SamplingRules greedy() {
  SamplingRules rules;
  rules.temperature = 0;
  return rules;
}

TEST_P(TokenChoices, AtTemperatureZeroAreTheLowestOfTheMostLikely) {
  EXPECT_EQ(choose_one(greedy(), {1, 3, 2, 3}).token, 1);
  EXPECT_EQ(choose_one(greedy(), {nan, -3, nan, -2, -2}).token, 3);
  EXPECT_EQ(choose_one(greedy(), {-1, infinity, 5}).token, 1);
  EXPECT_EQ(choose_one(greedy(), {1, 3}).log_probability, 0);  // nobody asked
}

TEST_P(TokenChoices, OfARowWithANaNAreMarkedByTheirLogProbability) {
  for (const SamplingRules& rules : {greedy(), SamplingRules{}}) {
    EXPECT_TRUE(std::isnan(choose_one(rules, {nan, nan, nan}).log_probability));
    EXPECT_TRUE(std::isnan(choose_one(rules, {1, 2, nan}).log_probability));
    EXPECT_TRUE(std::isnan(choose_one(rules, {1, 2, nan}, {0, 1}).log_probability));  // of a given token, too
    EXPECT_EQ(choose_one(rules, {1, 2, -infinity}).log_probability, 0);
  }
}

TEST_P(TokenChoices, AreNeverANaNOrAnImpossibleToken) {
  EXPECT_EQ(drawable({}, {0, nan, -infinity, 0.5F, nan}), (Tokens{0, 3}));
  EXPECT_EQ(drawable({}, {0, infinity, 3}), Tokens{1});
}

TEST_P(TokenChoices, FollowTheChanceThroughTheVocabulary) {
  const std::vector<float> logits{std::log(0.5F), std::log(0.25F), std::log(0.25F)};
  for (const auto& [uniform, token] :
       {std::pair{0.0, 0}, {0.499, 0}, {0.501, 1}, {0.749, 1}, {0.751, 2}, {0.9999999, 2}})
    EXPECT_EQ(choose_one({}, logits, {uniform}).token, token) << uniform;
}

TEST_P(TokenChoices, OfTheTopKeepEqualsOfTheLast) {
  SamplingRules rules;
  rules.top_k = 2;
  EXPECT_EQ(drawable(rules, {1, 2, 1, 3, 2, nan}), (Tokens{1, 3, 4}));
  rules.top_k = 1;
  EXPECT_EQ(drawable(rules, {0.0F, -0.0F, -1}), (Tokens{0, 1}));
  rules.top_k = 100;
  EXPECT_EQ(drawable(rules, {1, 2, 3}), (Tokens{0, 1, 2}));
}

TEST_P(TokenChoices, OfTheLikelyAreTheFewestWithThatShareTheLowerOfEqualsFirst) {
  SamplingRules rules;
  rules.top_p = 0.5;
  EXPECT_EQ(drawable(rules, {1, 1, 1, 1}), (Tokens{0, 1}));
  rules.top_p = 0.51;
  EXPECT_EQ(drawable(rules, {1, 1, 1, 1}), (Tokens{0, 1, 2}));
  rules.top_p = 1e-9;
  EXPECT_EQ(drawable(rules, {1, 2, 3}), (Tokens{2}));
  rules.top_p = 0.9;
  rules.top_k = 2;  // the share is of what the first cut left
  EXPECT_EQ(drawable(rules, {std::log(8.0F), std::log(1.0F), 0, std::log(9.0F)}), (Tokens{0, 3}));
}

TEST_P(TokenChoices, OfTheNotTooUnlikelyHaveThatShareOfTheLikeliest) {
  SamplingRules rules;
  rules.min_p = 0.5;
  EXPECT_EQ(drawable(rules, {std::log(0.49F), std::log(0.51F), 0}), (Tokens{1, 2}));
  rules.temperature = 2;
  EXPECT_EQ(drawable(rules, {std::log(0.2F), std::log(0.26F), 0}), (Tokens{1, 2}));
}

TEST_P(TokenChoices, ThatWereSeenAreLessLikely) {
  SamplingRules rules = greedy();
  rules.repetition_penalty = 2;
  rules.log_probabilities = true;
  const std::vector<std::int32_t> seen{1, 1, 3, 99, -1};
  const ChosenToken chosen = choose_one(rules, {1.5F, 2, -9, 2.9F}, {0, {}, seen});
  EXPECT_EQ(chosen.token, 0);
  EXPECT_EQ(chosen.log_probability, choose_one({}, {1.5F, 2, -9, 2.9F}, {0, 0}).log_probability);  // of what was there
  EXPECT_EQ(choose_one(rules, {-3, -2}, {0, {}, seen}).token, 0);
}

TEST_P(TokenChoices, HaveTheLogProbabilityOfTheWholeSoftmaxAtTheTemperature) {
  SamplingRules rules;
  rules.log_probabilities = true;
  rules.top_k = 1;
  const std::vector<float> logits{0.25F, 1, -3, 0.5F};
  for (const double temperature : {0.0, 0.5, 1.0, 3.0}) {
    rules.temperature = temperature;
    const at::Tensor exact =
        at::log_softmax(at::tensor(logits).to(at::kDouble) / (temperature > 0 ? temperature : 1), 0);
    const ChosenToken chosen = choose_one(rules, logits);
    EXPECT_EQ(chosen.token, 1);
    EXPECT_NEAR(chosen.log_probability, exact[1].item<double>(), 2e-6) << temperature;
    EXPECT_NEAR(choose_one(rules, logits, {0, 2}).log_probability, exact[2].item<double>(), 2e-6);
    EXPECT_EQ(choose_one(rules, logits, {0, 1}).log_probability, chosen.log_probability);
  }
}

TEST_P(TokenChoices, ThatAreNoTokensAreAnError) { EXPECT_THROW(choose_one({}, {1, 2}, {0, 2}), std::exception); }

struct Battery {
  at::Tensor logits;
  std::vector<SamplingRules> rules;
  std::vector<TokenQuery> queries;
  std::vector<std::int32_t> seen{5, 1, 700, 1001};

  explicit Battery(at::ScalarType type) {
    at::manual_seed(3);
    constexpr std::int64_t rows = 8;
    logits = (at::randn({rows, 2003}) * at::linspace(0.1, 12, rows).unsqueeze(1)).to(type);
    for (std::int64_t i = 0; i < rows; ++i) queries.push_back({at::rand({1}, at::kDouble).item<double>(), {}, seen});
    for (const double temperature : {0.0, 0.3, 1.0})
      for (const std::int64_t top_k : {0, 1, 50})
        for (const double top_p : {1.0, 0.9, 0.2})
          for (const double min_p : {0.0, 0.05})
            for (const double penalty : {1.0, 1.3}) rules.push_back({temperature, top_k, top_p, min_p, penalty, true});
  }
};

TEST_P(TokenChoices, AreTheSameAloneTogetherAndOnAnyNumberOfThreads) {
  DeviceOps other = arithmetic_of(GetParam(), 5);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Battery battery(type);
    for (const SamplingRules& rules : battery.rules) {
      const auto together = choose(rules, battery.logits, battery.queries);
      EXPECT_EQ(other.token_choice->choose(rules, battery.logits.to(GetParam()), battery.queries), together);
      for (std::size_t row = 0; row < together.size(); row += 3)
        ASSERT_EQ(choose(rules, battery.logits.narrow(0, static_cast<std::int64_t>(row), 1), {battery.queries[row]})[0],
                  together[row]);
    }
  }
}

TEST_P(TokenChoices, AreThoseOfTheCpu) {
  DeviceOps cpu = arithmetic_of(at::Device(at::kCPU), 1);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Battery battery(type);
    for (const SamplingRules& rules : battery.rules) {
      const auto expected = cpu.token_choice->choose(rules, battery.logits, battery.queries);
      const auto found = choose(rules, battery.logits, battery.queries);
      for (std::size_t row = 0; row < expected.size(); ++row) {
        ASSERT_EQ(found[row].token, expected[row].token);
        ASSERT_NEAR(found[row].log_probability, expected[row].log_probability, 1e-5);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(On, TokenChoices, testing::ValuesIn(devices()),
                         [](const auto& given) { return given.param.is_cuda() ? "Cuda" : "Cpu"; });

}  // namespace
}  // namespace muster::tensor
