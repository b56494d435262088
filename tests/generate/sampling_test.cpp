#include "generate/sampling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "generate/random_stream.hpp"

namespace muster::generate {
namespace {

const std::vector<float> logits{1.0F, 3.0F, 3.0F, -2.0F, 0.5F};

// How often each token is drawn, over evenly spread chance.
std::map<int, int> counts(const SamplingRules& rules, std::vector<std::int32_t> seen = {}) {
  constexpr int draws = 10000;
  std::map<int, int> found;
  for (int i = 0; i < draws; ++i) ++found[choose(logits, rules, seen, (i + 0.5) / draws).token];
  return found;
}

double probability(std::size_t token, double temperature) {
  double total = 0;
  for (const float logit : logits) total += std::exp(logit / temperature);
  return std::exp(logits[token] / temperature) / total;
}

TEST(Sampling, TakesTheLowestOfTheMostLikelyTokensAtTemperatureZero) {
  EXPECT_EQ(choose(logits, {.temperature = 0}, {}, 0.99).token, 1);
}

TEST(Sampling, DrawsEachTokenAsOftenAsItIsLikely) {
  for (const double temperature : {0.5, 1.0, 2.0}) {
    auto found = counts({.temperature = temperature});
    for (std::size_t token = 0; token < logits.size(); ++token)
      EXPECT_NEAR(found[static_cast<int>(token)] / 10000.0, probability(token, temperature), 2e-4);
  }
}

TEST(Sampling, KeepsTheMostLikelyTokensAndTheirEqualsUnderTopK) {
  EXPECT_EQ(counts({.top_k = 1}).size(), 2u);  // two are equally likely
  EXPECT_EQ(counts({.top_k = 2}).size(), 2u);
  EXPECT_EQ(counts({.top_k = 3}).size(), 3u);
  EXPECT_EQ(counts({.top_k = 100}).size(), 5u);
}

TEST(Sampling, KeepsTheFewestTokensOfThatProbabilityUnderTopP) {
  EXPECT_EQ(counts({.top_p = 0.01}).size(), 1u);
  EXPECT_EQ(counts({.top_p = 0.8}).size(), 2u);
  EXPECT_EQ(counts({.top_p = 0.95}).size(), 3u);
}

TEST(Sampling, MakesRepeatedTokensLessLikelyWhateverTheirSign) {
  const SamplingRules rules{.temperature = 0, .repetition_penalty = 4};
  EXPECT_EQ(choose(logits, rules, std::vector<std::int32_t>{1, 1}, 0).token, 2);
  EXPECT_EQ(choose(std::vector<float>{-1.0F, -1.5F}, rules, std::vector<std::int32_t>{0}, 0).token, 1);
}

TEST(Sampling, TellsTheLogProbabilityOfTheWholeVocabularyAtTheTemperature) {
  const Choice cut = choose(logits, {.temperature = 0.7, .top_k = 1}, {}, 0.1);
  EXPECT_NEAR(cut.log_probability, std::log(probability(static_cast<std::size_t>(cut.token), 0.7)), 1e-9);
  const Choice greedy = choose(logits, {.temperature = 0}, {}, 0);
  EXPECT_NEAR(greedy.log_probability, std::log(probability(1, 1)), 1e-9);
}

TEST(RandomStreams, DependOnEveryNumberThatNamesThem) {
  const RandomStream stream{1, 2, 3};
  EXPECT_EQ(stream.uniform(4), (RandomStream{1, 2, 3}.uniform(4)));
  for (const RandomStream& other : {RandomStream{2, 2, 3}, RandomStream{1, 3, 3}, RandomStream{1, 2, 4}})
    EXPECT_NE(stream.uniform(4), other.uniform(4));
  EXPECT_NE(stream.uniform(4), stream.uniform(5));
}

TEST(RandomStreams, AreSpreadEvenly) {
  std::vector<int> bins(16);
  for (std::uint64_t prompt = 0; prompt < 100; ++prompt)
    for (std::uint64_t step = 0; step < 160; ++step) {
      const double drawn = RandomStream{7, prompt, 0}.uniform(step);
      ASSERT_GE(drawn, 0);
      ASSERT_LT(drawn, 1);
      ++bins[static_cast<std::size_t>(drawn * 16)];
    }
  for (const int bin : bins) EXPECT_NEAR(bin, 1000, 150);
}

}  // namespace
}  // namespace muster::generate
