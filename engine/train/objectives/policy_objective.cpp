// Note [Fresh answers]
// The sampler's log-probabilities have the bits that a training pass computes from the same weights. So in the first
// update after answers were drawn every ratio is 1: a token weighs its advantage, and nothing is computed twice. In later
// ones the sampler's numbers are what ratios are taken from, and no pass over the old weights is needed either.
#include "train/objectives/policy_objective.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "spec/objective_metrics.hpp"
#include "train/objectives/policy_losses.hpp"
#include "train/objectives/sequence_rows.hpp"

namespace muster::train {
namespace {

constexpr std::size_t columns = 6;  // the loss, and spec::metrics_beside_loss

class Policy final : public Objective {
 public:
  explicit Policy(const spec::PolicyOptions& options) : options_(options) {
    names_.emplace_back("loss");
    for (const std::string_view name : spec::metrics_beside_loss(spec::Algorithm::grpo)) names_.push_back(name);
  }

  std::span<const std::string_view> metrics() const override { return names_; }
  double temperature() const override { return options_.temperature; }
  bool weighs_by_probability(const StepFacts& step) const override { return !step.is_fresh; }

  std::int64_t normalizer(const data::StepTotals& totals) const override {
    using enum spec::PolicyLoss;
    if (options_.loss == dapo || options_.loss == cispo) return std::max<std::int64_t>(totals.trained_tokens, 1);
    const std::int64_t answers = std::max<std::int64_t>(totals.units, 1);
    return options_.loss == dr_grpo ? answers * options_.most_tokens : answers;
  }

  at::Tensor weigh(const TrainedRows& rows) const override {
    at::Tensor weights = at::empty({std::ssize(rows.batch.trained_rows)}, at::kFloat);
    auto* weight = weights.mutable_data_ptr<float>();
    visit(rows, [&](const Answer& answer, std::int64_t row, const PolicyTerm& term, const Measured&) {
      const double length = options_.level == spec::RatioLevel::product ? static_cast<double>(answer.rows.count) : 1;
      weight[row] = static_cast<float>(-term.slope * answer.share * length * answer.copies);
    });
    return weights.to(rows.device);
  }

  std::vector<at::Tensor> measure(const TrainedRows& rows) const override {
    const auto count = std::ssize(rows.batch.trained_rows);
    at::Tensor terms = at::zeros({static_cast<std::int64_t>(columns), count}, at::kFloat);
    auto* number = terms.mutable_data_ptr<float>();
    const Divisors divisors = divisors_of(rows.step.totals);
    visit(rows, [&](const Answer& answer, std::int64_t row, const PolicyTerm& term, const Measured& measured) {
      const double clips = options_.level == spec::RatioLevel::token ? divisors.tokens
                                                                     : divisors.answers / answer.tokens();
      const std::array<double, columns> found{
          term.loss * answer.share, measured.divergence * divisors.tokens, term.clipped_low ? clips : 0, term.clipped_high ? clips : 0,
          term.clipped_low || term.clipped_high ? clips : 0, std::abs(measured.log_ratio) * divisors.weighed};
      for (std::size_t column = 0; column < columns; ++column)
        number[static_cast<std::int64_t>(column) * count + row] = static_cast<float>(found[column] * answer.copies);
    });
    return terms.to(rows.device).unbind(0);
  }

 private:
  struct Answer {
    RowRange rows;
    double advantage = 0;
    double copies = 1;
    double share = 1;  // of each of its tokens

    double tokens() const { return static_cast<double>(rows.count); }
  };
  // What a term is multiplied by for a mean over the tokens of the step, over its answers, and over the tokens that are
  // learnt from: sums are divided by the normalizer.
  struct Divisors {
    double tokens, answers, weighed;
  };

  Divisors divisors_of(const data::StepTotals& totals) const {
    const auto part = [&](std::int64_t count) {
      return static_cast<double>(normalizer(totals)) / static_cast<double>(std::max<std::int64_t>(count, 1));
    };
    return {part(totals.trained_tokens), part(totals.units), part(totals.weighed_tokens)};
  }

  // What is measured of a token, whatever the level.
  struct Measured {
    double log_ratio = 0;
    double divergence = 0;  // from the reference
  };
  using TokenVisit = std::function<void(const Answer&, std::int64_t row, const PolicyTerm&, const Measured&)>;
  void visit(const TrainedRows& rows, const TokenVisit& token) const {
    const at::Tensor host = rows.log_probabilities.defined() ? rows.log_probabilities.cpu() : at::Tensor();
    const float* now = host.defined() ? host.const_data_ptr<float>() : nullptr;
    const std::vector<RowRange> ranges = ranges_of(rows.batch);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const Answer answer{ranges[i], rows.batch.advantages[i], static_cast<double>(rows.batch.copies[i]),
                          share_of_token(options_, ranges[i].count)};
      const auto drawn = [&](std::int64_t row) {
        return static_cast<double>(rows.batch.sampled[static_cast<std::size_t>(row)]);
      };
      const auto probability = [&](std::int64_t row) { return now ? static_cast<double>(now[row]) : drawn(row); };
      double whole = 0;
      for (std::int64_t row = answer.rows.first; row < answer.rows.first + answer.rows.count; ++row)
        whole += probability(row) - drawn(row);
      if (options_.level == spec::RatioLevel::sequence) whole /= answer.tokens();
      for (std::int64_t row = answer.rows.first; row < answer.rows.first + answer.rows.count; ++row) {
        const double own = probability(row) - drawn(row);
        const double ratio = options_.level == spec::RatioLevel::token ? own : whole;
        const double log_ratio = rows.step.is_fresh ? 0 : ratio;
        PolicyTerm term = policy_term(options_, answer.advantage, log_ratio, probability(row));
        Measured measured{own, 0};
        if (!rows.batch.reference.empty()) {
          const auto reference = static_cast<double>(rows.batch.reference[static_cast<std::size_t>(row)]);
          measured.divergence =
              options_.leave_one_out ? drawn(row) - reference
                                     : hold_to_reference(term, options_.beta, log_ratio, probability(row), reference);
        }
        token(answer, row, term, measured);
      }
    }
  }

  spec::PolicyOptions options_;
  std::vector<std::string_view> names_;
};

}  // namespace

std::unique_ptr<Objective> make_policy(const ObjectiveOptions& options) {
  return std::make_unique<Policy>(*options.policy);
}

}  // namespace muster::train
