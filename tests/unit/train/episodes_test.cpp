// Answers with what an environment inserted: what of them is trained on, exchanged and kept.
#include <gtest/gtest.h>

#include "testing/scratch_folder.hpp"
#include "train/rollouts/answer_passes.hpp"
#include "train/rollouts/rollout_log.hpp"

namespace muster::train {
namespace {

// Drawn: 10 11, 14, 17; inserted: 12 13, 15 16.
Rollout episode() {
  Rollout made{.prompt = 1, .sample = 2, .tokens = {10, 11, 12, 13, 14, 15, 16, 17}, .ended = true, .reward = 0.5};
  made.inserted = {{2, 4}, {5, 7}};
  made.log_probabilities = {-0.1f, -0.2f, -0.3f, -0.4f};
  made.parts = {0.5};
  made.turn_rewards = {0.0, std::nullopt, 0.5};
  made.advantage = 1;
  return made;
}

TEST(Episodes, AreTrainedOnWhereTheyWereDrawn) {
  const Rollout one = episode();
  EXPECT_EQ(one.length(), 4);
  const std::vector<std::uint32_t> numbers{0};
  const std::vector<std::vector<std::int32_t>> prompts{{}, {1, 2, 3}};
  data::LoadedStep step;
  fill_passes(step, {{&one, 1}, numbers, prompts, false}, {1, 0, 1});
  const data::MicroBatch& pass = step.passes.at(0);
  EXPECT_EQ(pass.tokens, (std::vector<std::int64_t>{1, 2, 3, 10, 11, 12, 13, 14, 15, 16}));
  EXPECT_EQ(pass.targets, (std::vector<std::int64_t>{10, 11, 14, 17}));
  EXPECT_EQ(pass.trained_rows, (std::vector<std::int64_t>{2, 3, 6, 9}));
  EXPECT_EQ(pass.sampled, one.log_probabilities);
  EXPECT_EQ(step.totals.trained_tokens, 4);  // what losses are divided by
  EXPECT_EQ(step.rows, 10);
}

TEST(Episodes, AreNotTheSameWhereOtherTokensWereInserted) {
  std::vector<Rollout> answers{episode(), episode()};
  answers[1].inserted = {{1, 3}, {5, 7}};
  const std::vector<std::uint32_t> numbers{0, 1};
  const std::vector<std::vector<std::int32_t>> prompts{{}, {1, 2, 3}};
  data::LoadedStep step;
  fill_passes(step, {answers, numbers, prompts, false}, {1, 0, 2});
  EXPECT_EQ(step.passes.at(0).parts.size(), 2u);
}

TEST(Episodes, AreReadBackAsTheyWereWritten) {
  const testing::ScratchFolder folder;
  const Round round{0, {episode()}};
  const RolloutTexts texts{[](const Rollout&) { return "question"; }, [](const Rollout&) { return "all"; },
                           [](const Rollout&) {
                             return std::vector<std::string>{"a", "x", "b", "y", "c"};
                           },
                           {"debate"}};
  const auto path = folder.path() / "round.jsonl";
  ASSERT_TRUE(write_rollouts(path, round, texts));
  const auto read = read_rollouts(path);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(*read, round);
}

}  // namespace
}  // namespace muster::train
