#include "data/judged_samples.hpp"

#include <gtest/gtest.h>

#include "data/preference_row.hpp"
#include "testing/contains.hpp"

namespace muster::data {
namespace {

using testing::contains;

Sample judged(std::int32_t prompt, std::int32_t answer) { return {{prompt, answer, answer}, {{1, 3}}, 1}; }

TEST(JudgedSamples, HaveTheirPromptWithTheAnswerToThePromptBeforeThem) {
  JudgedSamples samples(8);
  std::vector<Sample> out;
  samples.add(judged(1, 10), out);
  EXPECT_TRUE(out.empty());
  samples.add(judged(2, 20), out);
  samples.add(judged(2, 21), out);  // the same prompt: its own answers tell nothing
  samples.add(judged(3, 30), out);
  ASSERT_TRUE(samples.finish(out));
  const std::vector<Sample> expected{judged(2, 20), {{2, 10, 10}, {{1, 3}}}, judged(2, 21), {{2, 10, 10}, {{1, 3}}},
                                     judged(3, 30), {{3, 21, 21}, {{1, 3}}}, judged(1, 10), {{1, 30, 30}, {{1, 3}}}};
  EXPECT_EQ(out, expected);
}

TEST(JudgedSamples, AreCutAtTheirEnds) {
  JudgedSamples samples(2);
  std::vector<Sample> out;
  samples.add({{1, 10}, {{1, 2}}}, out);
  samples.add({{2, 20}, {{1, 2}}}, out);
  EXPECT_EQ(out[1], (Sample{{2, 10}, {{1, 2}}}));
}

TEST(JudgedSamples, OfOnePromptAloneAreRefused) {
  JudgedSamples samples(8);
  std::vector<Sample> out;
  samples.add(judged(1, 10), out);
  samples.add(judged(1, 11), out);
  EXPECT_TRUE(contains(to_string(samples.finish(out).error()), "every row has the same prompt"));
}

TEST(JudgedRow, IsOneAnswerOrTwoOfAPreference) {
  const auto one = parse_judgements(R"({"prompt": "p", "completion": "c", "label": false})").value();
  ASSERT_EQ(one.size(), 1u);
  EXPECT_FALSE(std::get<JudgedText>(one[0]).desired);
  const auto two = parse_judgements(R"({"prompt": "p", "chosen": "c", "rejected": "r"})").value();
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(std::get<JudgedText>(two[0]).answer + std::get<JudgedText>(two[1]).answer, "cr");
  EXPECT_TRUE(std::get<JudgedText>(two[0]).desired);
  EXPECT_FALSE(std::get<JudgedText>(two[1]).desired);
  const auto said = parse_judgements(
      R"({"prompt": [{"role": "user", "content": "p"}], "completion": "c", "label": true})").value();
  EXPECT_EQ(std::get<JudgedMessages>(said[0]).answer[0]["role"], "assistant");
}

}  // namespace
}  // namespace muster::data
