#include "train/objectives/kto.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "spec/objective_metrics.hpp"
#include "train/objectives/sequence_rows.hpp"

namespace muster::train {
namespace {

class Kto final : public Objective {
 public:
  explicit Kto(const ObjectiveOptions& options) : options_(*options.preferences), reference_(options.reference) {
    names_.emplace_back("loss");
    for (const std::string_view name : spec::metrics_beside_loss(spec::Algorithm::kto)) names_.push_back(name);
  }

  std::span<const std::string_view> metrics() const override { return names_; }
  std::int64_t normalizer(const data::StepTotals& totals) const override {
    return std::max<std::int64_t>(totals.units, 1);
  }
  bool weighs_by_probability(const StepFacts&) const override { return true; }
  bool scores_first() const override { return true; }

  // How much likelier a sequence is than by the reference: their mean is an estimate of the divergence.
  at::Tensor score(const TrainedRows& rows) const override {
    std::vector<float> ratios;
    for (const Answer& answer : answers_of(rows)) ratios.push_back(static_cast<float>(answer.ratio));
    return at::tensor(ratios, at::kFloat).to(rows.device);
  }

  at::Tensor weigh(const TrainedRows& rows) const override {
    at::Tensor weights = at::zeros({std::ssize(rows.batch.trained_rows)}, at::kFloat);
    const std::vector<RowRange> ranges = ranges_of(rows.batch);
    const std::vector<Answer> answers = answers_of(rows);
    for (std::size_t i = 0; i < answers.size(); ++i) add_weight(weights, ranges[i], -judge(answers[i], rows.step).slope);
    return weights.to(rows.device);
  }

  std::vector<at::Tensor> measure(const TrainedRows& rows) const override {
    const std::vector<Answer> answers = answers_of(rows);
    const auto count = std::ssize(answers);
    at::Tensor terms = at::empty({std::ssize(names_), count}, at::kFloat);
    auto* number = terms.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < count; ++i) {
      const auto metrics = metrics_of(answers[static_cast<std::size_t>(i)], rows.step);
      for (std::size_t column = 0; column < metrics.size(); ++column)
        number[static_cast<std::int64_t>(column) * count + i] = static_cast<float>(metrics[column]);
    }
    return terms.to(rows.device).unbind(0);
  }

 private:
  struct Answer {
    bool desired = false;
    double log_probability = 0;
    double ratio = 0;  // ln(policy / reference)
  };

  std::vector<Answer> answers_of(const TrainedRows& rows) const {
    const std::vector<double> sums = sums_of_sequences(rows.batch, rows.log_probabilities);
    std::vector<Answer> answers;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const double reference = reference_.empty() ? 0 : reference_.at(static_cast<std::size_t>(rows.batch.samples[i]));
      answers.push_back({rows.batch.labels[i] != 0, sums[i], sums[i] - reference});
    }
    return answers;
  }

  static double divergence(const StepFacts& step) { return std::max(step.scored_mean, 0.0); }

  // λ(1 − σ(x)), x = ±β(ratio − divergence), which is held fixed
  struct Judgement {
    double loss = 0;
    double slope = 0;  // by the answer's log-probability
  };
  Judgement judge(const Answer& answer, const StepFacts& step) const {
    const double sign = answer.desired ? 1 : -1;
    const double weight = answer.desired ? options_.desirable_weight : options_.undesirable_weight;
    const double x = sign * options_.beta * (answer.ratio - divergence(step));
    const double small = std::exp(-std::abs(x)), other = (x >= 0 ? small : 1) / (1 + small);  // 1 − σ(x)
    return {weight * other, -sign * weight * options_.beta * other * (1 - other)};
  }

  // A step's sums are divided by its answers, and a mean over the desired ones by theirs.
  std::array<double, 7> metrics_of(const Answer& answer, const StepFacts& step) const {
    const std::int64_t alike = answer.desired ? step.totals.labelled : step.totals.units - step.totals.labelled;
    const double share = static_cast<double>(step.totals.units) / static_cast<double>(std::max<std::int64_t>(alike, 1));
    const double reward = share * options_.beta * answer.ratio, likely = share * answer.log_probability;
    std::array<double, 7> metrics{judge(answer, step).loss};
    metrics[answer.desired ? 1U : 2U] = reward;
    metrics[3] = answer.desired ? reward : -reward;
    metrics[answer.desired ? 4U : 5U] = likely;
    metrics[6] = divergence(step);
    return metrics;
  }

  spec::PreferenceOptions options_;
  std::vector<double> reference_;
  std::vector<std::string_view> names_;
};

}  // namespace

std::unique_ptr<Objective> make_kto(const ObjectiveOptions& options) { return std::make_unique<Kto>(options); }

}  // namespace muster::train
