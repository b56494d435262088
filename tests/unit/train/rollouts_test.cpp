// Answers of a round: what they earn compared with each other, how they become passes, how ranks exchange them, and how
// they are kept.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "communicate/thread_group.hpp"
#include "system/files.hpp"
#include "testing/scratch_folder.hpp"
#include "train/rollouts/advantages.hpp"
#include "train/rollouts/answer_passes.hpp"
#include "train/rollouts/rollout_exchange.hpp"
#include "train/rollouts/rollout_log.hpp"

namespace muster::train {
namespace {

Rollout answer(std::int64_t prompt, std::int64_t sample, std::optional<double> reward, std::int64_t length = 2) {
  Rollout made{.prompt = prompt, .sample = sample, .ended = true, .reward = reward, .parts = {reward, std::nullopt}};
  for (std::int64_t i = 0; i < length; ++i) {
    made.tokens.push_back(static_cast<std::int32_t>(10 * sample + i));
    made.log_probabilities.push_back(-0.1f * static_cast<float>(i + 1 + sample));
  }
  return made;
}

spec::PolicyOptions options_of(std::int64_t group) {
  spec::PolicyOptions options;
  options.group = group;
  return options;
}

std::vector<double> advantages_of(const std::vector<Rollout>& answers) {
  std::vector<double> advantages;
  for (const Rollout& one : answers) advantages.push_back(one.advantage);
  return advantages;
}

TEST(Advantages, AreDifferencesFromTheGroupsMeanInItsDeviations) {
  std::vector<Rollout> answers{answer(0, 0, 1), answer(0, 1, 0), answer(0, 2, 0), answer(5, 0, 3), answer(5, 1, 4),
                               answer(5, 2, 5)};
  give_advantages(answers, options_of(3));
  const double first = std::sqrt(1.0 / 3) + 1e-4;
  EXPECT_NEAR(answers[0].advantage, (2.0 / 3) / first, 1e-12);
  EXPECT_NEAR(answers[1].advantage, (-1.0 / 3) / first, 1e-12);
  EXPECT_NEAR(answers[5].advantage, 1 / (1 + 1e-4), 1e-12);
}

TEST(Advantages, LeaveOutWhatHasNoReward) {
  std::vector<Rollout> answers{answer(0, 0, 1), answer(0, 1, std::nullopt), answer(0, 2, 0), answer(1, 0, std::nullopt),
                               answer(1, 1, 7), answer(1, 2, std::nullopt)};
  auto options = options_of(3);
  options.scale = spec::RewardScale::none;
  give_advantages(answers, options);
  EXPECT_EQ(advantages_of(answers), (std::vector<double>{0.5, 0, -0.5, 0, 0, 0}));
}

TEST(Advantages, AreExactlyZeroWhereAllEarnedTheSame) {
  std::vector<Rollout> answers;
  for (std::int64_t i = 0; i < 7; ++i) answers.push_back(answer(0, i, 0.1));
  give_advantages(answers, options_of(7));
  EXPECT_EQ(advantages_of(answers), std::vector<double>(7, 0.0));
}

TEST(Advantages, AreInTheDeviationOfAllRewardsSoFar) {
  std::vector<Rollout> first{answer(0, 0, 1), answer(0, 1, 4), answer(1, 0, std::nullopt), answer(1, 1, 2)};
  std::vector<Rollout> second{answer(2, 0, 5), answer(2, 1, 3)};
  auto options = options_of(2);
  options.scale = spec::RewardScale::running;
  give_advantages(first, options);
  EXPECT_NEAR(first[1].advantage, 1.5 / (std::sqrt(7.0 / 3) + 1e-4), 1e-12);  // of 1, 4, 2
  EXPECT_EQ(first[3].advantage, 0);                                           // alone in its group
  const data::RewardsSeen seen = rewards_after({}, first);
  EXPECT_EQ(seen.count, 3);
  give_advantages(second, options, seen);
  EXPECT_NEAR(second[0].advantage, 1 / (std::sqrt(2.5) + 1e-4), 1e-12);  // of 1, 4, 2, 5, 3
  EXPECT_EQ(rewards_after(seen, second).count, 5);
}

TEST(Advantages, LeaveTheAnswerItselfOutOfTheMean) {
  std::vector<Rollout> answers{answer(0, 0, 1), answer(0, 1, 3), answer(0, 2, 8)};
  auto options = options_of(3);
  options.scale = spec::RewardScale::none;
  options.leave_one_out = true;
  give_advantages(answers, options);
  EXPECT_NEAR(answers[0].advantage, 1 - 5.5, 1e-12);
  EXPECT_NEAR(answers[2].advantage, 8 - 2.0, 1e-12);
}

TEST(Advantages, ChooseTheFirstGroupsThatTeachSomething) {
  std::vector<Rollout> answers;
  for (std::int64_t prompt = 0; prompt < 4; ++prompt)
    for (std::int64_t i = 0; i < 2; ++i) answers.push_back(answer(prompt, i, prompt == 1 ? 1.0 : static_cast<double>(i)));
  auto options = options_of(2);
  give_advantages(answers, options);
  EXPECT_EQ(teaching_groups(answers, 2), 3);
  EXPECT_EQ(trained_answers(answers, options, 2).size(), 8u);
  options.draws = 2;
  EXPECT_EQ(trained_answers(answers, options, 2), (std::vector<std::uint32_t>{0, 1, 4, 5}));
  for (Rollout& one : answers) one.advantage = 0;
  EXPECT_EQ(trained_answers(answers, options, 2).size(), 8u);
}

struct Filled {
  data::LoadedStep step;
  std::vector<std::int64_t> parts;  // of all passes
};

Filled fill(const std::vector<Rollout>& answers, std::int64_t ranks, std::int64_t rank, bool masks_cut = false) {
  const std::vector<std::vector<std::int32_t>> prompts{{1, 2, 3}, {4}};
  std::vector<std::uint32_t> numbers(answers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint32_t>(i);
  Filled filled;
  fill_passes(filled.step, {answers, numbers, prompts, masks_cut}, {ranks, rank, 2});
  for (const data::MicroBatch& pass : filled.step.passes)
    filled.parts.insert(filled.parts.end(), pass.parts.begin(), pass.parts.end());
  return filled;
}

TEST(AnswerPasses, PredictEachTokenOfAnAnswerFromTheOneBefore) {
  std::vector<Rollout> answers{answer(0, 0, 1, 3)};
  answers[0].advantage = 0.5;
  const Filled filled = fill(answers, 1, 0);
  const data::MicroBatch& pass = filled.step.passes.at(0);
  EXPECT_EQ(pass.tokens, (std::vector<std::int64_t>{1, 2, 3, 0, 1}));
  EXPECT_EQ(pass.trained_rows, (std::vector<std::int64_t>{2, 3, 4}));
  EXPECT_EQ(pass.targets, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(pass.sampled, answers[0].log_probabilities);
  EXPECT_EQ(filled.step.rows, 5);
}

TEST(AnswerPasses, LeaveOutWhatTeachesNothingAndComputeEqualOnesOnce) {
  std::vector<Rollout> answers{answer(0, 0, 1), answer(0, 0, 1), answer(0, 1, 0), answer(1, 2, 0), answer(1, 3, 0)};
  for (std::size_t i = 0; i < 4; ++i) answers[i].advantage = i < 2 ? 1 : -1;  // the last one: 0
  answers[3].ended = false;
  const Filled all = fill(answers, 1, 0);
  EXPECT_EQ(all.parts, (std::vector<std::int64_t>{4, 4, 2}));
  EXPECT_EQ(all.step.passes.at(0).copies, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(all.step.totals.units, 5);
  EXPECT_EQ(all.step.totals.trained_tokens, 10);
  EXPECT_EQ(all.step.totals.weighed_tokens, 8);
  const Filled masked = fill(answers, 1, 0, true);
  EXPECT_EQ(masked.parts.size(), 2u);
  EXPECT_EQ(masked.step.totals.trained_tokens, 8);
  EXPECT_EQ(masked.step.totals.units, 5);
}

TEST(AnswerPasses, OfACriticHaveEveryJudgedAnswerWithTheNumbersOfItsTokens) {
  std::vector<Rollout> answers{answer(0, 0, 1), answer(0, 0, 1), answer(0, 0, 1), answer(1, 1, std::nullopt)};
  for (Rollout& one : answers) one.values = {0.5f, 0.25f};
  for (std::size_t i = 0; i < 3; ++i) {
    answers[i].token_advantages = {-0.5, 0.5};
    answers[i].returns = {1, i == 2 ? 2.0 : 1.0};
  }
  const Filled filled = fill(answers, 1, 0);
  const data::MicroBatch& pass = filled.step.passes.at(0);
  EXPECT_EQ(pass.copies, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(pass.token_advantages, (std::vector<double>{-0.5, 0.5, -0.5, 0.5}));
  EXPECT_EQ(pass.returns, (std::vector<double>{1, 1, 1, 2}));
  EXPECT_EQ(pass.values, (std::vector<float>{0.5f, 0.25f, 0.5f, 0.25f}));
  EXPECT_EQ(filled.step.totals.trained_tokens, 6);
  EXPECT_EQ(filled.step.totals.units, 4);
}

TEST(AnswerPasses, GiveEveryRankAsManyPassesAndTheSameTotals) {
  std::vector<Rollout> answers;
  for (std::int64_t i = 0; i < 5; ++i) {
    answers.push_back(answer(i % 2, i, 1));
    answers.back().advantage = 1;
  }
  const Filled first = fill(answers, 2, 0), second = fill(answers, 2, 1);
  EXPECT_EQ(first.step.totals, second.step.totals);
  EXPECT_EQ(first.step.rows, second.step.rows);
  EXPECT_EQ(first.step.passes.size(), second.step.passes.size());
  EXPECT_EQ(first.parts.size() + second.parts.size(), 5u);
}

TEST(AnswerPasses, AreOneEmptyPassWhereNothingIsLearnt) {
  const Filled filled = fill({answer(0, 0, 1)}, 2, 1);
  ASSERT_EQ(filled.step.passes.size(), 1u);
  EXPECT_TRUE(filled.step.passes[0].trained_rows.empty());
}

TEST(RolloutExchange, BringsAllAnswersToEveryRankBitForBit) {
  const auto ranks = communicate::make_thread_group(3, std::chrono::seconds(60));
  std::vector<std::vector<Rollout>> own{{answer(0, 0, 0.1), answer(0, 1, std::nullopt)}, {}, {answer(2, 0, -3, 4)}};
  own[2][0].ended = false;
  own[2][0].reference = {-1.5f, std::nextafter(-2.0f, 0.0f), 0, -7};
  own[0][0].values = {0.25f, std::nextafter(-3.0f, 0.0f)};
  std::vector<std::vector<Rollout>> gathered(3), first(3);
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      gathered[rank] = gather_rollouts(own[rank], *ranks[rank], at::kCPU);
      first[rank] = rollouts_of_first_rank(own[rank], *ranks[rank], at::kCPU);
    });
  threads.clear();
  const std::vector<Rollout> all{own[0][0], own[0][1], own[2][0]};
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(gathered[rank], all);
    EXPECT_EQ(first[rank], own[0]);
  }
}

TEST(RolloutExchange, BringsWhatEachRankJudgedToTheAnswersOfAll) {
  const auto ranks = communicate::make_thread_group(2, std::chrono::seconds(60));
  const std::vector<Rollout> judged{answer(4, 0, 0.1), answer(4, 1, std::nullopt), answer(0, 0, -3)};
  std::vector<std::vector<Rollout>> found(2, judged);
  for (auto& answers : found)
    for (Rollout& one : answers) {
      one.reward.reset();
      one.parts.clear();
    }
  const std::vector<std::vector<std::size_t>> own{{0, 1}, {2}};
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      for (const std::size_t place : own[rank]) found[rank][place] = judged[place];
      share_rewards(found[rank], own[rank], *ranks[rank], at::kCPU);
    });
  threads.clear();
  EXPECT_EQ(found[0], judged);
  EXPECT_EQ(found[1], judged);
}

TEST(RolloutExchange, MakesTheLowestRanksErrorThatOfAll) {
  const auto ranks = communicate::make_thread_group(3, std::chrono::seconds(60));
  std::vector<Result<void>> found(3);
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      Result<void> own;
      if (rank > 0) own = Error{Error::Kind::refused, "of " + std::to_string(rank), "try ä"};
      found[rank] = agree_on_failure(own, *ranks[rank], at::kCPU);
    });
  threads.clear();
  for (const auto& one : found) {
    ASSERT_FALSE(one);
    EXPECT_EQ(one.error(), (Error{Error::Kind::refused, "of 1", "try ä"}));
  }
}

class RolloutLog : public ::testing::Test {
 protected:
  Round round() const {
    Round made{4, {answer(7, 0, 0.1), answer(7, 1, std::nullopt, 5)}};
    made.answers[0].advantage = 1.0 / 3;
    made.answers[1].ended = false;
    made.answers[1].reference = {-0.1f, -0.2f, -0.3f, -0.4f, std::nextafter(-0.5f, 0.0f)};
    made.answers[0].values = {0.1f, std::nextafter(2.0f, 3.0f)};
    made.answers[0].token_advantages = {1.0 / 3, -2.0 / 7};
    made.answers[0].returns = {0.1 + 0.2, 5};
    return made;
  }
  Result<void> write() const {
    return write_rollouts(path_, round(), {.question = [](const Rollout&) { return "12+34=\n\xff"; },
                                           .answer = [](const Rollout& one) { return std::to_string(one.sample); },
                                           .functions = {"exact", "program"}});
  }

  testing::ScratchFolder folder_;
  std::filesystem::path path_ = rollout_log_path(folder_.path(), 4);
};

TEST_F(RolloutLog, ReadsBackWhatWasWritten) {
  EXPECT_EQ(path_.filename(), "round-000005.jsonl");
  ASSERT_TRUE(write());
  const auto read = read_rollouts(path_);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(*read, round());
}

TEST_F(RolloutLog, SaysWhatIsNotJudgedYet) {
  Round drawn{4, {answer(7, 0, std::nullopt), answer(7, 1, std::nullopt)}, false};
  for (Rollout& one : drawn.answers) one.parts.clear();
  const auto text = [](const Rollout&) { return std::string(); };
  ASSERT_TRUE(write_rollouts(path_, drawn, {.question = text, .answer = text, .functions = {"exact"}}));
  const auto read = read_rollouts(path_);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(*read, drawn);
}

TEST_F(RolloutLog, RefusesEveryChangeAndEveryCut) {
  ASSERT_TRUE(write());
  const std::string text = *read_file(path_);
  EXPECT_FALSE(read_rollouts(folder_.path() / "none"));
  for (std::size_t length = 0; length < text.size(); length += 7) {
    folder_.write("cut", text.substr(0, length));
    EXPECT_FALSE(read_rollouts(folder_.path() / "cut")) << length;
  }
  for (std::size_t place = text.find('\n') + 1; place < text.size(); place += 5) {
    std::string changed = text;
    changed[place] = static_cast<char>(changed[place] ^ 1);
    folder_.write("changed", changed);
    EXPECT_FALSE(read_rollouts(folder_.path() / "changed")) << place;
  }
}

}  // namespace
}  // namespace muster::train
