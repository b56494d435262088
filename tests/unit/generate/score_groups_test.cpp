#include "generate/score_groups.hpp"

#include <gtest/gtest.h>

#include <map>

namespace muster::generate {
namespace {

// length tokens that count up from first.
std::vector<std::int32_t> count_up(std::int32_t first, std::int32_t length) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < length; ++i) tokens.push_back(first + i);
  return tokens;
}

ScoredText text_of(std::int64_t index, std::vector<std::int32_t> context, const std::vector<std::int32_t>& completion) {
  ScoredText text{index, std::move(context), 0};
  text.context = static_cast<std::int64_t>(text.tokens.size());
  text.tokens.insert(text.tokens.end(), completion.begin(), completion.end());
  return text;
}

// Every text can be put together again from its request.
void expect_whole(const std::vector<Request>& requests, const std::vector<ScoredText>& texts) {
  std::map<std::int64_t, ScoredText> found;
  for (const Request& request : requests)
    for (const Branch& branch : request.branches) {
      ScoredText text{branch.index, request.prompt, static_cast<std::int64_t>(request.prompt.size()) + branch.unscored};
      text.tokens.insert(text.tokens.end(), branch.given.begin(), branch.given.end());
      found[branch.index] = text;
    }
  ASSERT_EQ(found.size(), texts.size());
  for (const ScoredText& text : texts) {
    EXPECT_EQ(found[text.index].tokens, text.tokens);
    EXPECT_EQ(found[text.index].context, text.context);
  }
}

TEST(ScoreGroups, JoinCompletionsOfOnePrompt) {
  const std::vector<ScoredText> texts{text_of(0, count_up(0, 30), {1, 2}), text_of(1, count_up(100, 20), {5}),
                                      text_of(2, count_up(0, 30), {3}), text_of(3, count_up(0, 30), {1, 2})};
  const auto requests = group_scores(texts);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].prompt.size(), 30u);
  EXPECT_EQ(requests[0].branches.size(), 3u);
  expect_whole(requests, texts);
}

TEST(ScoreGroups, ShareALongBeginningOfDifferentPrompts) {
  std::vector<ScoredText> texts;
  for (std::int32_t i = 0; i < 5; ++i) {
    std::vector<std::int32_t> context = count_up(0, 200);
    context.push_back(1000 + i);
    texts.push_back(text_of(i, context, {7}));
  }
  const auto requests = group_scores(texts);
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].prompt.size(), 200u);
  EXPECT_EQ(requests[0].branches[0].unscored, 1);
  expect_whole(requests, texts);
}

TEST(ScoreGroups, DoNotGiveUpALongPromptForAShortBeginning) {
  std::vector<ScoredText> texts;
  for (std::int32_t i = 0; i < 4; ++i) texts.push_back(text_of(i, count_up(0, 200), {i}));
  std::vector<std::int32_t> other = count_up(0, 20);
  other.push_back(500);
  texts.push_back(text_of(9, other, {1}));
  const auto requests = group_scores(texts);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].branches.size(), 4u);
  expect_whole(requests, texts);
}

TEST(ScoreGroups, PutTheLongestFirst) {
  const std::vector<ScoredText> texts{text_of(0, {1, 2}, {3}), text_of(1, count_up(9, 9), {1}), text_of(2, {4}, {5})};
  for (const auto& requests : {group_scores(texts), separate_scores(texts)}) {
    ASSERT_EQ(requests.size(), 3u);
    EXPECT_EQ(requests[0].branches[0].index, 1);
    EXPECT_EQ(requests[2].branches[0].index, 2);
    expect_whole(requests, texts);
  }
}

}  // namespace
}  // namespace muster::generate
