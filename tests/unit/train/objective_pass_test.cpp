#include "train/objective_pass.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "model/random_source.hpp"
#include "small_model.hpp"
#include "spec/objective_metrics.hpp"
#include "tensor/device_ops.hpp"
#include "train/objectives/objectives.hpp"
#include "train/objectives/supervised.hpp"

namespace muster::train {
namespace {

using testing::small_model;

// Weights and metrics that a test chooses, from log-probabilities or without them.
class ChosenObjective final : public Objective {
 public:
  using Weigh = std::function<at::Tensor(const TrainedRows&)>;
  ChosenObjective(bool by_probability, double temperature, Weigh weigh)
      : by_probability_(by_probability), temperature_(temperature), weigh_(std::move(weigh)) {}

  std::span<const std::string_view> metrics() const override {
    static constexpr std::array<std::string_view, 2> names{"loss", "chance"};
    return names;
  }
  std::int64_t normalizer(const data::StepTotals& totals) const override { return totals.units; }
  double temperature() const override { return temperature_; }
  bool weighs_by_probability(const StepFacts&) const override { return by_probability_; }
  at::Tensor weigh(const TrainedRows& rows) const override {
    EXPECT_EQ(rows.log_probabilities.defined(), by_probability_);
    return weigh_(rows);
  }
  std::vector<at::Tensor> measure(const TrainedRows& rows) const override {
    return {rows.log_probabilities.neg(), rows.log_probabilities.exp()};
  }

 private:
  bool by_probability_;
  double temperature_;
  Weigh weigh_;
};

// Keeps plain gradients of all parameters.
class KeptGradients final : public model::ParameterAccess {
 public:
  explicit KeptGradients(const model::CausalModel& model) {
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
      const model::Parameter& parameter = model.parameters()[i];
      kept_[model::ParameterId{i}] = at::zeros(parameter.shape(), at::kFloat);
    }
  }
  void enter(model::UnitId) override { ++visits; }
  void leave(model::UnitId) override {}
  tensor::GradientSum gradient(model::ParameterId parameter) override { return {kept_.at(parameter), {}}; }
  void gradients_complete(model::UnitId) override {}
  at::Tensor all() const {
    std::vector<at::Tensor> flat;
    for (const auto& [id, values] : kept_) flat.push_back(values.view({-1}));
    return at::cat(flat);
  }

  int visits = 0;  // of units, forward and backward

 private:
  std::map<model::ParameterId, at::Tensor> kept_;
};

// A CPU's operations, with how many rows' probabilities were computed: without gradients, and on the way to them.
class CountedTraining final : public tensor::TrainingOps {
 public:
  explicit CountedTraining(std::unique_ptr<tensor::TrainingOps> counted) : counted_(std::move(counted)) {}

  std::int64_t scored = 0, learnt = 0;

  at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, double temperature) override {
    scored += targets.numel();
    return counted_->cross_entropy(logits, targets, temperature);
  }
  at::Tensor cross_entropy(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights,
                           double temperature) override {
    learnt += targets.numel();
    return counted_->cross_entropy(logits, targets, weights, temperature);
  }
  LossAndEntropy cross_entropy(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights,
                               const at::Tensor& entropy_weights, double temperature) override {
    learnt += targets.numel();
    return counted_->cross_entropy(logits, targets, weights, entropy_weights, temperature);
  }

  void clear(const tensor::GradientSum& sum) override { counted_->clear(sum); }
  void add_product(const tensor::GradientSum& sum, const at::Tensor& output_gradient, const at::Tensor& input,
                   std::span<const std::int64_t> sequence_rows) override {
    counted_->add_product(sum, output_gradient, input, sequence_rows);
  }
  void add_rows(const tensor::GradientSum& sum, const at::Tensor& gradient) override { counted_->add_rows(sum, gradient); }
  void add_rows_at(const tensor::GradientSum& sum, const at::Tensor& indices, const at::Tensor& gradient) override {
    counted_->add_rows_at(sum, indices, gradient);
  }
  at::Tensor square_blocks(const tensor::GradientSum& sum) override { return counted_->square_blocks(sum); }
  at::Tensor squared_sum(const tensor::GradientSum& sum) override { return counted_->squared_sum(sum); }
  void adamw(const at::Tensor& parameter, const at::Tensor& first, const at::Tensor& second,
             const tensor::GradientSum& gradient, const tensor::AdamWStep& step) override {
    counted_->adamw(parameter, first, second, gradient, step);
  }
  void adamw(const at::Tensor& parameter, const tensor::CodedMoment& first, const tensor::CodedMoment& second,
             const tensor::GradientSum& gradient, const tensor::AdamWStep& step) override {
    counted_->adamw(parameter, first, second, gradient, step);
  }
  void sgd(const at::Tensor& parameter, const at::Tensor& momentum, const tensor::GradientSum& gradient,
           const tensor::SgdStep& step) override {
    counted_->sgd(parameter, momentum, gradient, step);
  }
  void assign(const tensor::Weight& weight, const at::Tensor& values) override { counted_->assign(weight, values); }
  bool has_plain_weights() const override { return counted_->has_plain_weights(); }
  void adopt(const tensor::Weight& weight, const at::Tensor& values) override { counted_->adopt(weight, values); }

 private:
  std::unique_ptr<tensor::TrainingOps> counted_;
};

struct Learnt {
  at::Tensor sums, gradients;
};

data::MicroBatch two_samples() {
  data::MicroBatch batch;
  for (std::int64_t i = 0; i < 14; ++i) batch.tokens.push_back(i * 5 % 67);
  batch.parts = {8, 6};
  batch.trained_rows = {3, 4, 5, 6, 7, 9, 10, 12, 13};
  for (const std::int64_t row : batch.trained_rows) batch.targets.push_back((row * 7 + 3) % 67);
  return batch;
}

class ObjectivePasses : public ::testing::Test {
 protected:
  ObjectivePasses()
      : ops_(*tensor::make_device_ops({})),
        model_(*model::CausalModel::load(small_model(), *model::make_random_source(small_model(), 1), ops_,
                                         {.type = at::kFloat})) {}

  Learnt learn(std::unique_ptr<Objective> objective, const data::MicroBatch& batch, double scale = 1) {
    KeptGradients access(model_);
    ObjectivePass passes(std::move(objective), model_, ops_, false);
    at::Tensor sums = passes.no_sums();
    sums += passes.learn(batch, {scale}, access);
    EXPECT_TRUE(at::equal(passes.measure(batch, {}), sums));  // forward alone gives the same bits
    return {sums, access.all()};
  }
  static std::unique_ptr<Objective> chosen(bool by_probability, ChosenObjective::Weigh weigh, double temperature = 1) {
    return std::make_unique<ChosenObjective>(by_probability, temperature, std::move(weigh));
  }

  tensor::DeviceOps ops_;
  model::CausalModel model_;
};

TEST_F(ObjectivePasses, WeightsThatFollowFromProbabilitiesGiveTheBitsOfTheSameWeightsGivenBefore) {
  at::Tensor found;
  const auto focal = [&](const TrainedRows& rows) { return found = (1 - rows.log_probabilities.exp()).square(); };
  const Learnt after = learn(chosen(true, focal), two_samples());
  ASSERT_TRUE(found.defined());
  const Learnt before = learn(chosen(false, [&](const TrainedRows&) { return found; }), two_samples());
  EXPECT_TRUE(at::equal(after.gradients, before.gradients));
  EXPECT_TRUE(at::equal(after.sums, before.sums));
}

TEST_F(ObjectivePasses, TheFirstUpdateAfterARoundComputesNoProbabilityTwice) {
  auto owned = std::make_unique<CountedTraining>(std::move(ops_.training));
  CountedTraining& counted = *owned;
  ops_.training = std::move(owned);
  data::MicroBatch batch = two_samples();
  const auto rows = std::ssize(batch.trained_rows);
  batch.advantages = {1, -0.5};
  batch.copies = {1, 1};
  batch.sampled.assign(static_cast<std::size_t>(rows), -4.f);
  ObjectivePass passes(make_objective(spec::Algorithm::grpo, {.policy = spec::PolicyOptions()}), model_, ops_, false);
  StepFacts step{.totals = {.units = 2, .trained_tokens = rows, .weighed_tokens = rows}, .is_fresh = true};
  KeptGradients first(model_), later(model_);
  passes.learn(batch, {.step = step}, first);
  EXPECT_EQ(counted.scored, 0);     // what the sampler computed is enough
  EXPECT_EQ(counted.learnt, rows);  // one pass over the head
  step.is_fresh = false;
  passes.learn(batch, {.step = step}, later);
  EXPECT_EQ(counted.scored, rows);  // the head once more, without the blocks
  EXPECT_EQ(counted.learnt, 2 * rows);
  EXPECT_EQ(first.visits, later.visits);
}

TEST_F(ObjectivePasses, GradientsAddUpOverRowsAsTheirWeights) {
  const Learnt whole = learn(make_supervised(), two_samples());
  const auto some = [](bool even) {
    return [even](const TrainedRows& rows) {
      at::Tensor weights = at::zeros({std::ssize(rows.batch.trained_rows)}, at::kFloat);
      for (std::int64_t i = even ? 0 : 1; i < weights.numel(); i += 2) weights[i] = 1;
      return weights;
    };
  };
  const at::Tensor parts = learn(chosen(false, some(true)), two_samples()).gradients +
                           learn(chosen(false, some(false)), two_samples()).gradients;
  EXPECT_LT((parts - whole.gradients).norm().item<double>(), 1e-5 * whole.gradients.norm().item<double>());
  EXPECT_GT(whole.gradients.norm().item<double>(), 1);
}

TEST_F(ObjectivePasses, TheGradientIsThatOfTheWeighedLossesAtTheirTemperature) {
  constexpr double temperature = 1.5, step = 1e-2;
  const auto focal = [](const TrainedRows& rows) { return (1 - rows.log_probabilities.exp()).square(); };
  const at::Tensor gradients = learn(chosen(true, focal, temperature), two_samples()).gradients;
  // The loss whose derivative by a row's log-probability l is −(1 − e^l)².
  const auto loss = [&] {
    ObjectivePass passes(chosen(false, {}, temperature), model_, ops_, false);
    const data::MicroBatch batch = two_samples();
    double sum = 0;
    for (std::size_t i = 0; i < batch.trained_rows.size(); ++i) {
      data::MicroBatch one = batch;
      one.trained_rows = {batch.trained_rows[i]};
      one.targets = {batch.targets[i]};
      const double l = -loss_of(passes.measure(one, {}).narrow(0, 0, loss_parts)).value;
      sum += -l + 2 * std::exp(l) - std::exp(2 * l) / 2;
    }
    return sum;
  };
  const double before = loss();
  double expected = 0;
  std::int64_t next = 0;
  for (std::size_t i = 0; i < model_.parameters().size(); ++i) {
    const model::Parameter& parameter = model_.parameters()[i];
    const at::Tensor gradient = gradients.narrow(0, next, parameter.elements());
    next += parameter.elements();
    if (parameter.columns) continue;  // only vectors can be read back on CPU
    model_.assign(model::ParameterId{i}, parameter.vector - gradient * step);
    expected -= step * gradient.square().sum().item<double>();
  }
  ASSERT_LT(expected, -1e-6);
  EXPECT_NEAR(loss() - before, expected, 0.05 * std::abs(expected));
}

// Half the square of each score's distance from its row's number, beside the losses of tokens where these weigh anything.
class NearNumbers final : public Objective {
 public:
  NearNumbers(bool reads_tokens, double of_tokens) : reads_tokens_(reads_tokens), of_tokens_(of_tokens) {}

  std::span<const std::string_view> metrics() const override {
    static constexpr std::array<std::string_view, 1> names{"loss"};
    return names;
  }
  std::int64_t normalizer(const data::StepTotals&) const override { return 1; }
  bool reads_tokens() const override { return reads_tokens_; }
  bool reads_scores() const override { return true; }
  at::Tensor weigh(const TrainedRows& rows) const override {
    return at::full({std::ssize(rows.batch.trained_rows)}, of_tokens_, at::kFloat);
  }
  at::Tensor weigh_scores(const TrainedRows& rows) const override { return distances(rows); }
  std::vector<at::Tensor> measure(const TrainedRows& rows) const override {
    at::Tensor terms = distances(rows).square().sum(1).div(2);
    if (reads_tokens_) terms -= rows.log_probabilities * of_tokens_;
    return {terms};
  }

 private:
  static at::Tensor distances(const TrainedRows& rows) {
    return rows.scores - at::tensor(rows.batch.trained_rows, at::kLong).to(at::kFloat).div(10).unsqueeze(1);
  }

  bool reads_tokens_;
  double of_tokens_;
};

class Scores : public ::testing::TestWithParam<spec::ScoreHead> {
 protected:
  static spec::ModelConfig config() {
    spec::ModelConfig config = small_model();
    config.score = GetParam();
    config.tied = config.predicts_tokens();
    return config;
  }
  Scores()
      : ops_(*tensor::make_device_ops({})),
        model_(*model::CausalModel::load(config(), *model::make_random_source(config(), 1), ops_, {.type = at::kFloat})) {}

  static std::unique_ptr<Objective> objective() {
    return std::make_unique<NearNumbers>(config().predicts_tokens(), config().predicts_tokens() ? 0.5 : 0);
  }
  double loss() {
    ObjectivePass passes(objective(), model_, ops_, false);
    return loss_of(passes.measure(two_samples(), {})).value;
  }

  tensor::DeviceOps ops_;
  model::CausalModel model_;
};

TEST_P(Scores, AreDifferentiatedAsTheObjectiveSays) {
  constexpr double step = 1e-3;
  KeptGradients access(model_);
  ObjectivePass passes(objective(), model_, ops_, false);
  at::Tensor sums = passes.no_sums();
  sums += passes.learn(two_samples(), {}, access);
  EXPECT_TRUE(at::equal(passes.measure(two_samples(), {}), sums));
  const double before = loss();
  const at::Tensor gradients = access.all();
  double expected = 0;
  std::int64_t next = 0;
  for (std::size_t i = 0; i < model_.parameters().size(); ++i) {
    const model::Parameter& parameter = model_.parameters()[i];
    const at::Tensor gradient = gradients.narrow(0, next, parameter.elements());
    next += parameter.elements();
    EXPECT_GT(gradient.square().sum().item<double>(), 0) << parameter.pieces.front().name;
    if (parameter.columns) continue;  // only vectors can be read back on CPU
    model_.assign(model::ParameterId{i}, parameter.vector - gradient * step);
    expected -= step * gradient.square().sum().item<double>();
  }
  ASSERT_LT(expected, -1e-6);
  EXPECT_NEAR(loss() - before, expected, 0.05 * std::abs(expected));
}

TEST_P(Scores, OfARowDoNotDependOnWhatIsComputedBesideIt) {
  ObjectivePass passes(objective(), model_, ops_, false);
  const at::Tensor all = passes.scores(two_samples());
  EXPECT_EQ(all.sizes(), (at::IntArrayRef{9, GetParam().outputs}));
  data::MicroBatch second;
  const data::MicroBatch both = two_samples();
  second.tokens.assign(both.tokens.begin() + 8, both.tokens.end());
  second.parts = {6};
  second.trained_rows = {5};
  second.targets = {0};
  EXPECT_TRUE(at::equal(passes.scores(second)[0], all[8]));
}

const std::vector<spec::ScoreHead> every_use{
    {spec::ScoreUse::sequences, 1}, {spec::ScoreUse::tokens, 3}, {spec::ScoreUse::values, 1}};

std::string name_of_use(const ::testing::TestParamInfo<spec::ScoreHead>& head) {
  constexpr std::array<const char*, 3> names{"OfSequences", "OfTokens", "OfValues"};
  return names[static_cast<std::size_t>(head.param.use)];
}

INSTANTIATE_TEST_SUITE_P(Heads, Scores, ::testing::ValuesIn(every_use), name_of_use);

TEST(Objectives, MeasureWhatMetricsAreListedFor) {
  using enum spec::Algorithm;
  for (const spec::Algorithm algorithm : {sft, dpo, simpo, orpo, kto, reward, grpo, rloo, ppo}) {
    const auto objective = make_objective(algorithm, {.preferences = spec::PreferenceOptions(),
                                                      .policy = spec::PolicyOptions(),
                                                      .critic = spec::CriticOptions(),
                                                      .reward_model = spec::RewardModelOptions()});
    const auto names = objective->metrics();
    EXPECT_EQ(names.front(), "loss");
    EXPECT_TRUE(std::ranges::equal(names.subspan(1), spec::metrics_beside_loss(algorithm)));
  }
}

}  // namespace
}  // namespace muster::train
