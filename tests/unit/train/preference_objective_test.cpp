#include "train/objectives/preference_objective.hpp"

#include <gtest/gtest.h>

#include "system/files.hpp"
#include "testing/scratch_folder.hpp"
#include "train/objectives/reference_scores.hpp"

namespace muster::train {
namespace {

using spec::PairLoss;

// Pairs of prompts of two tokens and answers of some; whole: chosen prompts are trained on, too.
data::MicroBatch batch_of(const std::vector<std::pair<std::int64_t, std::int64_t>>& answers, std::int64_t first_sample = 0,
                          bool whole = false) {
  data::MicroBatch batch;
  std::int64_t sample = first_sample;
  for (const auto& [chosen, rejected] : answers)
    for (const bool is_chosen : {true, false}) {
      const std::int64_t begin = batch.rows(), length = is_chosen ? chosen : rejected;
      batch.parts.push_back(1 + length);
      batch.samples.push_back(sample++);
      for (std::int64_t row = 0; row < 1 + length; ++row) {
        batch.tokens.push_back(row);
        if (row == 0 && !(whole && is_chosen)) continue;
        batch.trained_rows.push_back(begin + row);
        batch.targets.push_back(row + 1);
      }
    }
  return batch;
}

at::Tensor some_log_probabilities(const data::MicroBatch& batch) {
  return at::linspace(0.1, 4, std::ssize(batch.trained_rows), at::kFloat).sin().abs().add(0.1).neg();
}

ObjectiveOptions options_of(std::vector<spec::WeightedPairLoss> losses) {
  return {spec::PreferenceOptions{.losses = std::move(losses)}, {}};
}

TEST(PreferenceObjective, WeighsAndMeasuresAPairByItselfAlone) {
  const data::MicroBatch both = batch_of({{3, 2}, {1, 4}}), first = batch_of({{3, 2}}), second = batch_of({{1, 4}}, 2);
  const at::Tensor scores = some_log_probabilities(both);
  const StepFacts step{{2, 10, 4, 0}, 0};
  ObjectiveOptions options = options_of({{PairLoss::sigmoid, 1}, {PairLoss::sft, 0.5}});
  options.reference = {-1, -2, -3, -4};
  for (const auto make : {make_dpo, make_simpo, make_orpo}) {
    const auto objective = make(options);
    const auto of = [&](const data::MicroBatch& batch, const at::Tensor& its) {
      const TrainedRows rows{batch, at::kCPU, step, its};
      return std::pair{objective->weigh(rows), at::stack(objective->measure(rows))};
    };
    const auto [weights, terms] = of(both, scores);
    const auto [one_weights, one_terms] = of(first, scores.narrow(0, 0, 5));
    const auto [two_weights, two_terms] = of(second, scores.narrow(0, 5, 5));
    EXPECT_TRUE(at::equal(weights, at::cat({one_weights, two_weights})));
    EXPECT_TRUE(at::equal(terms, at::cat({one_terms, two_terms}, 1)));
  }
}

TEST(PreferenceObjective, OfOddsTrainsOnThePromptByLikelihoodAlone) {
  const data::MicroBatch batch = batch_of({{2, 2}}, 0, true);
  const auto objective = make_orpo(options_of({}));
  const StepFacts step{{1, 5, 3, 0}, 0};
  const TrainedRows rows{batch, at::kCPU, step, some_log_probabilities(batch)};
  const at::Tensor weights = objective->weigh(rows);
  EXPECT_FLOAT_EQ(weights[0].item<float>(), 1.0F / 3);  // a third of the likelihood's three tokens
  EXPECT_GT(weights[1].item<float>(), 1.0F / 3);        // and the odds
  EXPECT_LT(weights[3].item<float>(), 0);
}

TEST(PreferenceObjective, OfALikelihoodAloneWeighsEveryTokenOfTheStepAlike) {
  const data::MicroBatch batch = batch_of({{3, 2}, {1, 4}});
  const auto objective = make_dpo(options_of({{PairLoss::sft, 1}}));
  const StepFacts step{{2, 10, 4, 0}, 0};
  const at::Tensor weights = objective->weigh({batch, at::kCPU, step, some_log_probabilities(batch)});
  const auto normalizer = static_cast<double>(objective->normalizer(step.totals));
  for (const std::int64_t row : {0, 1, 2, 5}) EXPECT_DOUBLE_EQ(weights[row].item<double>() / normalizer, 0.25);
  EXPECT_EQ(weights[3].item<float>(), 0);
}

TEST(ReferenceScores, AreReadAsTheyWereWrittenAndNotWhenTheyAreDamagedOrOfOtherData) {
  const testing::ScratchFolder folder;
  const std::string path = (folder.path() / "scores").string();
  const SampleScores scores{-1.25, -3.5, -1e-9, 0};
  EXPECT_FALSE(read_sample_scores(path, 4));
  ASSERT_TRUE(write_sample_scores(path, scores));
  EXPECT_EQ(read_sample_scores(path, 4), scores);
  EXPECT_FALSE(read_sample_scores(path, 6));
  std::string text = read_file(path).value();
  text.back() ^= 1;
  ASSERT_TRUE(write_file_atomically(path, text));
  EXPECT_FALSE(read_sample_scores(path, 4));
}

}  // namespace
}  // namespace muster::train
