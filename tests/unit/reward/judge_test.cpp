#include "reward/judge.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace muster::reward {
namespace {

using spec::RewardFunction;
using enum spec::RewardFunction;
using Values = std::vector<std::optional<double>>;

struct Sampled {
  std::string completion;
  std::optional<std::string> answer = "46";
  std::int64_t tokens = 2;
  std::int64_t room = 10;
};

Result<std::vector<Judged>> judge_with(const spec::RewardOptions& options, const std::vector<Sampled>& samples) {
  auto judge = make_judge(options);
  if (!judge) return judge.error();
  std::vector<Question> questions;
  for (const Sampled& sample : samples) questions.push_back({"12+34=", sample.answer, ""});
  std::vector<Answered> answers;
  for (std::size_t i = 0; i < samples.size(); ++i)
    answers.push_back({&questions[i], samples[i].completion, samples[i].tokens, true, samples[i].room});
  return judge->judge(answers);
}

// What one function says of each.
Values parts_of(spec::RewardOptions options, const std::vector<Sampled>& samples) {
  const auto judged = judge_with(options, samples);
  EXPECT_TRUE(judged) << judged.error().what;
  Values values;
  if (judged)
    for (const Judged& one : *judged) values.push_back(one.parts.at(0));
  return values;
}
Values parts_of(RewardFunction function, const std::vector<Sampled>& samples) {
  return parts_of(spec::RewardOptions{.functions = {function}}, samples);
}

TEST(RewardExact, LooksPastBlanksAroundTheAnswer) {
  EXPECT_EQ(parts_of(exact, {{"46"}, {" 46\n"}, {"46."}, {"4 6"}, {""}}), (Values{1, 1, 0, 0, 0}));
}

TEST(RewardContains, DoesNotTakeAPieceOfALongerNumberOrWord) {
  EXPECT_EQ(parts_of(contains, {{"It is 46."}, {"460"}, {"146"}, {"a46"}, {"460 or 46"}, {"47"}}),
            (Values{1, 0, 0, 0, 1, 0}));
}

TEST(RewardNumeric, ComparesTheLastNumbersHoweverTheyAreWritten) {
  EXPECT_EQ(parts_of(numeric, {{"12+34 is 46."}, {"046.00"}, {"46, or 47"}, {"nothing"}}), (Values{1, 1, 0, 0}));
  EXPECT_EQ(parts_of(numeric, {{"$1,234.50", "so\n#### 1234.5"}, {"-7", "7"}, {"3-7", "7"}, {"(-7)", "-7"}, {"12,34", "34"}}),
            (Values{1, 0, 1, 1, 1}));
  EXPECT_EQ(parts_of(numeric, {{"5", "none"}}), (Values{std::nullopt}));
}

TEST(RewardDigits, GivesPartOfTheCreditForSomeRightPlaces) {
  EXPECT_EQ(parts_of(digits, {{"46"}, {"41"}, {"36"}, {"64"}, {"461"}, {""}}), (Values{1, 0.5, 0.5, 0, 2.0 / 3, 0}));
}

TEST(RewardMath, CallsUnknownWhatItCannotTell) {
  EXPECT_EQ(parts_of(math, {{"\\boxed{92/2}"}, {"47"}, {"\\boxed{\\int_0^1 x dx}"}}), (Values{1, 0, std::nullopt}));
}

TEST(RewardFormat, MatchesTheWholeAnswerOrSomePartOfIt) {
  spec::RewardOptions options{.functions = {format}, .format = "<think>.*</think>\\d+"};
  EXPECT_EQ(parts_of(options, {{"<think>so</think>46"}, {"<think>so</think>46."}, {"46"}}), (Values{1, 0, 0}));
  options.format_match = spec::FormatMatch::search;
  EXPECT_EQ(parts_of(options, {{"a\n<think>so</think>46\nb"}, {"<think>so46"}}), (Values{1, 0}));
}

TEST(RewardFormat, IsUnknownWhereTheExpressionWouldTakeTooLong) {
  const spec::RewardOptions options{.functions = {format}, .format = "(a+)+(b|c)"};
  EXPECT_EQ(parts_of(options, {{std::string(40, 'a')}}), (Values{std::nullopt}));
}

TEST(RewardFormat, RefusesWhatIsNoExpression) {
  const auto judge = make_judge({.functions = {format}, .format = "(a"});
  ASSERT_FALSE(judge);
  EXPECT_NE(judge.error().what.find("reward.format"), std::string::npos) << judge.error().what;
}

TEST(RewardLength, FallsToMinusOneWithinTheMargin) {
  spec::RewardOptions options{.functions = {length}};
  const auto of = [](std::int64_t tokens, std::int64_t room) { return Sampled{"x", std::nullopt, tokens, room}; };
  EXPECT_EQ(parts_of(options, {of(1, 100), of(80, 100), of(90, 100), of(100, 100), of(101, 100)}), (Values{0, 0, -0.5, -1, -1}));
  options.length_margin = 4;
  EXPECT_EQ(parts_of(options, {of(96, 100), of(97, 100), of(3, 4)}), (Values{0, -0.25, -0.75}));
}

TEST(RewardRepetition, IsTheShareOfRunsThatCameBefore) {
  spec::RewardOptions options{.functions = {repetition}, .repetition_words = 2};
  EXPECT_EQ(parts_of(options, {{"a b c d"}, {"a b A  b\na b"}, {"a"}, {""}}), (Values{0, 2.0 / 5 - 1, 0, 0}));
}

TEST(Judge, AddsWeightedPartsAndThenScalesAndClips) {
  const std::vector<Sampled> one{{"41"}};
  spec::RewardOptions options{.functions = {digits, exact}, .weights = {2, 3}};
  EXPECT_EQ(judge_with(options, one)->at(0).reward, 1);
  options.scale = -4, options.bias = 0.5;
  EXPECT_EQ(judge_with(options, one)->at(0).reward, -3.5);
  options.clip = 2;
  EXPECT_EQ(judge_with(options, one)->at(0).reward, -2);
  EXPECT_EQ(make_judge(options)->names(), (std::vector<std::string_view>{"digits", "exact"}));
}

TEST(Judge, LeavesAnUnknownPartOut) {
  const auto judged = judge_with({.functions = {numeric, length}, .weights = {1, 2}}, {{"5", "none", 9, 10}});
  ASSERT_TRUE(judged);
  EXPECT_EQ(judged->at(0).parts, (Values{std::nullopt, -0.5}));
  EXPECT_EQ(judged->at(0).reward, -1);
}

TEST(Judge, GivesNoRewardWhereEveryPartThatCountsIsUnknown) {
  EXPECT_EQ(judge_with({.functions = {numeric}, .bias = 1}, {{"5", "none"}})->at(0).reward, std::nullopt);
  EXPECT_EQ(judge_with({.functions = {numeric, length}, .weights = {1, 0}}, {{"5", "none"}})->at(0).reward, std::nullopt);
}

TEST(Judge, TakesUnknownPartsForZeroWhereItIsToldTo) {
  const auto judged = judge_with({.functions = {numeric}, .unknown = spec::UnknownReward::zero}, {{"5", "none"}});
  ASSERT_TRUE(judged);
  EXPECT_EQ(judged->at(0).parts, (Values{0}));
  EXPECT_EQ(judged->at(0).reward, 0);
}

TEST(Judge, RefusesToCompareWithAnAnswerThatIsNotThere) {
  for (const RewardFunction function : {exact, contains, numeric, math, digits}) {
    const auto judged = judge_with({.functions = {function}}, {{"46", std::nullopt}});
    ASSERT_FALSE(judged);
    EXPECT_NE(judged.error().what.find("have none"), std::string::npos) << judged.error().what;
    EXPECT_TRUE(spec::needs_answer(function));
  }
  EXPECT_TRUE(judge_with({.functions = {length}}, {{"46", std::nullopt}}));
}

TEST(Judge, RefusesSettingsThatContradictEachOther) {
  for (const spec::RewardOptions& options :
       {spec::RewardOptions{}, {.functions = {exact}, .weights = {1, 2}}, {.functions = {program}}}) {
    const auto judge = make_judge(options);
    ASSERT_FALSE(judge);
    EXPECT_FALSE(judge.error().remedy.empty());
  }
}

}  // namespace
}  // namespace muster::reward
