#include "generate/generator.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "generate/random_stream.hpp"
#include "scripted_runner.hpp"

namespace muster::generate {
namespace {

using Kind = model::BlockMove::Kind;
using Name = std::pair<std::int64_t, std::int64_t>;  // index and sample
using Answers = std::map<Name, std::vector<GeneratedToken>>;

constexpr std::int64_t block_tokens = 4;
constexpr std::uint64_t seed = 11;
constexpr std::int32_t end_token = 3;

Request prompt_of(std::int64_t index, std::int64_t length, std::int64_t samples, std::int64_t most_tokens) {
  Request request;
  for (std::int64_t i = 0; i < length; ++i)
    request.prompt.push_back(static_cast<std::int32_t>((index * 31 + i * 7) % 50));
  for (std::int64_t sample = 0; sample < samples; ++sample) request.branches.push_back({index, sample, most_tokens});
  return request;
}

// What a branch gives when it is computed alone, without a cache.
std::vector<GeneratedToken> alone(const Request& request, const Branch& branch, const ScriptedModel& model = {}) {
  std::vector<std::int64_t> tokens(request.prompt.begin(), request.prompt.end());
  std::vector<GeneratedToken> answer;
  const RandomStream stream{seed, static_cast<std::uint64_t>(branch.index), static_cast<std::uint64_t>(branch.sample)};
  const std::size_t count = branch.given.empty() ? static_cast<std::size_t>(branch.most_tokens) : branch.given.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto given = branch.given.empty() ? std::nullopt : std::optional(branch.given[i]);
    const auto chosen = model.choose(tokens, given ? 0 : stream.uniform(i), given);
    tokens.push_back(chosen.token);
    if (given && i < static_cast<std::size_t>(branch.unscored)) continue;
    answer.push_back({branch.index, branch.sample, chosen.token, chosen.log_probability});
    if (!given && chosen.token == end_token) {
      answer.back().finish = Finish::stop;
      return answer;
    }
  }
  answer.back().finish = Finish::length;
  return answer;
}

Answers one_by_one(const std::vector<Request>& requests) {
  Answers answers;
  for (const Request& request : requests)
    for (const Branch& branch : request.branches) answers[{branch.index, branch.sample}] = alone(request, branch);
  return answers;
}

struct Trial {
  GeneratorSettings settings{.seed = seed, .end_tokens = {end_token}, .most_sequences = 4, .most_prompt_rows = 16};
  int depth = 1;
  std::int64_t blocks = 64;
};

struct Rig {
  explicit Rig(const Trial& trial)
      : runner(trial.depth, trial.blocks, block_tokens),
        pool(trial.blocks, block_tokens),
        generator(runner, pool, trial.settings) {}

  Answers answer(const std::vector<Request>& requests) {
    for (const Request& request : requests) generator.add(request);
    Answers answers;
    for (int steps = 0; !generator.idle(); ++steps) {
      if (steps > 100'000) throw std::runtime_error("it never ends");
      for (const GeneratedToken& token : generator.step()) answers[{token.index, token.sample}].push_back(token);
    }
    EXPECT_EQ(pool.free(), pool.size());
    EXPECT_EQ(runner.on_host(), 0u);
    return answers;
  }

  ScriptedRunner runner;
  BlockPool pool;
  Generator generator;
};

TEST(Generator, ComputesAPromptOnceForAllItsSamples) {
  Rig run({});
  const std::vector<Request> requests{prompt_of(0, 10, 3, 6)};
  const Answers answers = run.answer(requests);
  EXPECT_EQ(answers, one_by_one(requests));
  std::int64_t written = 0;
  for (const auto& [name, tokens] : answers) written += static_cast<std::int64_t>(tokens.size()) - 1;
  EXPECT_EQ(run.runner.rows(), 10 + written);   // the last token of each is never read
  EXPECT_EQ(run.runner.count(Kind::copy), 2u);  // of the third, half-full block: the last sample takes it as it is
  EXPECT_EQ(run.runner.steps.front().draws.size(), 3u);
}

TEST(Generator, CopiesNothingWherePromptsFillTheirBlocks) {
  Rig run({});
  const std::vector<Request> requests{prompt_of(0, 8, 4, 6)};
  EXPECT_EQ(run.answer(requests), one_by_one(requests));
  EXPECT_EQ(run.runner.count(Kind::copy), 0u);
}

TEST(Generator, LetsSamplesWaitForAPlace) {
  Trial trial;
  trial.settings.most_sequences = 2;
  Rig run(trial);
  const std::vector<Request> requests{prompt_of(0, 5, 7, 9), prompt_of(1, 6, 7, 9)};
  EXPECT_EQ(run.answer(requests), one_by_one(requests));
  for (const Step& step : run.runner.steps) EXPECT_LE(step.batch.parts.size(), 2u);
}

TEST(Generator, ReadsLongPromptsInParts) {
  Rig run({});
  const std::vector<Request> requests{prompt_of(0, 50, 1, 2), prompt_of(1, 3, 1, 30)};
  EXPECT_EQ(run.answer(requests), one_by_one(requests));
  for (const Step& step : run.runner.steps) EXPECT_LE(step.batch.rows(), 16 + 4);
}

TEST(Generator, SendsTheYoungestToTheHostAndTakesThemBackInOrder) {
  Trial trial;
  trial.blocks = 12;
  trial.settings.end_tokens.clear();
  Rig run(trial);
  std::vector<Request> requests;
  for (std::int64_t i = 0; i < 4; ++i) requests.push_back(prompt_of(i, 6, 1, 30));  // 9 blocks each in the end
  Answers answers;
  std::vector<std::int64_t> ended;
  for (const Request& request : requests) run.generator.add(request);
  while (!run.generator.idle())
    for (const GeneratedToken& token : run.generator.step())
      if (token.finish) ended.push_back(token.index);
  EXPECT_EQ(ended, (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_GT(run.runner.count(Kind::to_host), 0u);
  EXPECT_EQ(run.runner.count(Kind::to_host), run.runner.count(Kind::from_host));
  EXPECT_EQ(run.runner.rows(), 4 * (6 + 29));  // nothing twice
  EXPECT_EQ(run.pool.free(), 12);
}

TEST(Generator, GetsOnInACacheOfOneSequence) {
  for (const int depth : {1, 3})
    for (const std::int64_t length : {5, 8, 21}) {
      Trial trial;
      trial.depth = depth;
      trial.blocks = (length + 20 - 1 + block_tokens - 1) / block_tokens;
      Rig run(trial);
      const std::vector<Request> requests{prompt_of(0, length, 5, 20), prompt_of(1, length, 5, 20)};
      EXPECT_EQ(run.answer(requests), one_by_one(requests));
    }
}

TEST(Generator, RefusesWhatNoCacheOfItsSizeHolds) {
  Trial trial;
  trial.blocks = 4;
  Rig run(trial);
  EXPECT_THROW(run.generator.add(prompt_of(0, 10, 1, 8)), std::logic_error);
  run.generator.add(prompt_of(0, 10, 1, 7));  // the last token's keys are never needed
}

TEST(Generator, KeepsAsManyStepsUnderWayAsTheRunnerTakes) {
  Trial trial;
  trial.depth = 3;
  trial.settings.most_sequences = 6;
  trial.settings.end_tokens.clear();
  Rig run(trial);
  std::vector<Request> requests;
  for (std::int64_t i = 0; i < 6; ++i) requests.push_back(prompt_of(i, 4, 1, 20));
  EXPECT_EQ(run.answer(requests).size(), 6u);
  EXPECT_EQ(run.runner.most_under_way, 3u);
  const auto& counts = run.runner.under_way_at_finish;
  for (std::size_t i = 0; i + 3 < counts.size(); ++i) EXPECT_EQ(counts[i], 3u) << i;
  for (const Step& step : run.runner.steps) EXPECT_EQ(step.batch.parts.size(), 2u);  // all groups equally full
}

TEST(Generator, LevelsGroupsWhenSequencesLeave) {
  Trial trial;
  trial.depth = 2;
  trial.settings.end_tokens.clear();
  Rig run(trial);
  std::vector<Request> requests;  // of the first group, all end early
  for (std::int64_t i = 0; i < 4; ++i) requests.push_back(prompt_of(i, 4, 1, i % 2 == 0 ? 2 : 40));
  run.answer(requests);
  for (std::size_t i = 10; i < run.runner.steps.size(); ++i) EXPECT_EQ(run.runner.steps[i].batch.parts.size(), 1u);
}

TEST(Generator, WaitsWithNewPromptsUntilEnoughPlacesAreFree) {
  Trial trial;
  trial.settings.prefill_patience = 0.5;
  trial.settings.end_tokens.clear();
  trial.settings.most_prompt_rows = 64;
  Rig run(trial);
  std::vector<Request> requests;
  for (std::int64_t i = 0; i < 12; ++i) requests.push_back(prompt_of(i, 5, 1, 4 + i));
  run.answer(requests);
  std::vector<std::size_t> reads;
  for (const Step& step : run.runner.steps) {
    const bool reads_any = std::ranges::any_of(step.batch.parts, [](const auto& part) { return part.position == 0; });
    if (!reads_any) continue;
    EXPECT_EQ(step.batch.rows(), 5 * static_cast<std::int64_t>(step.batch.parts.size()));  // and nothing else
    reads.push_back(step.batch.parts.size());
  }
  EXPECT_EQ(reads.front(), 4u);
  for (const std::size_t count : reads) EXPECT_GE(count, 2u);
}

TEST(Generator, ScoresWhatIsGivenAndReadsACommonPromptOnce) {
  Request request = prompt_of(0, 10, 0, 0);
  request.branches.push_back({0, 0, 0, {1, 2, 3}});
  request.branches.push_back({1, 0, 0, {9}});
  request.branches.push_back({2, 0, 0, {4, 3, 3, 3, 5, 6}, 2});
  Rig run({});
  EXPECT_EQ(run.answer({request}), one_by_one({request}));
  EXPECT_EQ(run.runner.rows(), 10 + 2 + 5);
}

TEST(Generator, ScoresASingleCompletionInOneStep) {
  Request request = prompt_of(0, 6, 0, 0);
  request.branches.push_back({0, 0, 0, {1, 2, 3, 4}});
  Rig run({});
  EXPECT_EQ(run.answer({request}), one_by_one({request}));
  EXPECT_EQ(run.runner.steps.size(), 1u);
}

TEST(Generator, EndsABranchWhenTold) {
  Trial trial;
  trial.settings.most_sequences = 2;
  trial.settings.end_tokens.clear();
  Rig run(trial);
  run.generator.add(prompt_of(0, 6, 4, 10));
  std::map<Name, int> told;
  while (!run.generator.idle())
    for (const GeneratedToken& token : run.generator.step()) {
      const Name name{token.index, token.sample};
      if (++told[name] == (token.sample == 1 ? 1 : token.sample == 2 ? 4 : 100))
        run.generator.stop(name.first, name.second);
    }
  EXPECT_EQ(told, (std::map<Name, int>{{{0, 0}, 10}, {{0, 1}, 1}, {{0, 2}, 4}, {{0, 3}, 10}}));
  EXPECT_EQ(run.pool.free(), run.pool.size());
}

TEST(Generator, GivesTheSameAnswersHoweverItIsScheduled) {
  std::mt19937 chance(5);
  const auto between = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(chance); };
  std::size_t evictions = 0, copies = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<Request> requests;
    std::int64_t longest_of_all = 0;
    for (int i = 0; i < between(1, 9); ++i) {
      Request request = prompt_of(i, between(1, 30), between(0, 5), between(1, 25));
      if (request.branches.empty())
        for (int sample = 0; sample < between(1, 4); ++sample) {
          Branch branch{i, sample};
          for (int j = between(1, 12); j > 0; --j) branch.given.push_back(between(0, 49));
          branch.unscored = between(0, static_cast<int>(branch.given.size()) - 1);
          request.branches.push_back(branch);
        }
      if (request.branches.empty()) continue;
      longest_of_all = std::max(longest_of_all, longest(request));
      requests.push_back(request);
    }
    Trial trial;
    trial.depth = between(1, 4);
    trial.blocks = (longest_of_all + block_tokens - 1) / block_tokens + (between(0, 1) == 0 ? 0 : between(0, 20));
    trial.settings.most_sequences = between(1, 8);
    trial.settings.most_prompt_rows = between(1, 40);
    trial.settings.prefill_patience = between(0, 1) * 0.5;
    std::shuffle(requests.begin(), requests.end(), chance);
    Rig run(trial);
    ASSERT_EQ(run.answer(requests), one_by_one(requests)) << round;
    evictions += run.runner.count(Kind::to_host);
    copies += run.runner.count(Kind::copy);
  }
  EXPECT_GT(evictions, 1000u);  // or the test would prove little
  EXPECT_GT(copies, 100u);
}

}  // namespace
}  // namespace muster::generate
