#include "train/objectives/preference_objective.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "spec/objective_metrics.hpp"
#include "train/objectives/pair_losses.hpp"
#include "train/objectives/sequence_rows.hpp"

namespace muster::train {
namespace {

// One pair of a pass.
struct Pair {
  RowRange chosen, rejected;  // the answers
  RowRange likely;            // of the chosen sample what a likelihood is taken of: its answer, or all that is trained on
  OfPair sums;                // of the answers' log-probabilities
  double likely_sum = 0;
  OfPair reference;  // its sums; 0 where there is none

  OfPair tokens() const { return {static_cast<double>(chosen.count), static_cast<double>(rejected.count)}; }
  OfPair means() const { return {sums.chosen / tokens().chosen, sums.rejected / tokens().rejected}; }
  OfPair ratios() const { return {sums.chosen - reference.chosen, sums.rejected - reference.rejected}; }
};

// What an objective says of a pair: the loss, its derivatives by the sums of both answers and by the likelihood's, and the
// numbers of the metrics beside the loss.
struct Verdict {
  double loss = 0;
  OfPair slopes;
  double likely_slope = 0;
  std::array<double, 9> metrics{};
};

class PreferenceObjective : public Objective {
 public:
  PreferenceObjective(spec::Algorithm algorithm, const ObjectiveOptions& options)
      : options_(*options.preferences), reference_(options.reference) {
    names_.emplace_back("loss");
    for (const std::string_view name : spec::metrics_beside_loss(algorithm)) names_.push_back(name);
  }

  std::span<const std::string_view> metrics() const override { return names_; }
  std::int64_t normalizer(const data::StepTotals& totals) const override {
    return std::max<std::int64_t>(totals.units, 1);
  }
  bool weighs_by_probability(const StepFacts&) const override { return true; }

  at::Tensor weigh(const TrainedRows& rows) const override {
    at::Tensor weights = at::zeros({std::ssize(rows.batch.trained_rows)}, at::kFloat);
    for (const Pair& pair : pairs_of(rows)) {
      const Verdict verdict = judge(pair, rows.step.totals);
      add_weight(weights, pair.chosen, -verdict.slopes.chosen);
      add_weight(weights, pair.rejected, -verdict.slopes.rejected);
      if (verdict.likely_slope != 0) add_weight(weights, pair.likely, -verdict.likely_slope);
    }
    return weights.to(rows.device);
  }

  std::vector<at::Tensor> measure(const TrainedRows& rows) const override {
    const std::vector<Pair> pairs = pairs_of(rows);
    const auto count = std::ssize(pairs), columns = std::ssize(names_);
    at::Tensor terms = at::empty({columns, count}, at::kFloat);
    auto* number = terms.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < count; ++i) {
      const Verdict verdict = judge(pairs[static_cast<std::size_t>(i)], rows.step.totals);
      number[i] = static_cast<float>(verdict.loss);
      for (std::int64_t column = 1; column < columns; ++column)
        number[column * count + i] = static_cast<float>(verdict.metrics[static_cast<std::size_t>(column - 1)]);
    }
    return terms.to(rows.device).unbind(0);
  }

 protected:
  virtual Verdict judge(const Pair& pair, const data::StepTotals& totals) const = 0;

  const spec::PreferenceOptions& options() const { return options_; }
  // As every objective has them first: of what it takes for rewards and log-probabilities.
  static void report(Verdict& verdict, const OfPair& rewards, const OfPair& log_probabilities) {
    verdict.metrics[0] = rewards.chosen;
    verdict.metrics[1] = rewards.rejected;
    verdict.metrics[2] = rewards.chosen > rewards.rejected ? 1 : 0;
    verdict.metrics[3] = rewards.chosen - rewards.rejected;
    verdict.metrics[4] = log_probabilities.chosen;
    verdict.metrics[5] = log_probabilities.rejected;
  }
  // A step's losses are divided by its pairs, and a likelihood by its tokens.
  static double pairs_per_likely_token(const data::StepTotals& totals) {
    return static_cast<double>(totals.units) / static_cast<double>(std::max<std::int64_t>(totals.first_tokens, 1));
  }

 private:
  // The rejected sample's trained rows begin where its prompt ends, which is the chosen one's, too.
  std::vector<Pair> pairs_of(const TrainedRows& rows) const {
    const std::vector<RowRange> ranges = ranges_of(rows.batch);
    if (ranges.size() % 2 != 0) throw std::logic_error("half a pair");
    const at::Tensor numbers = rows.log_probabilities.cpu();
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < ranges.size(); i += 2) {
      Pair pair{ranges[i], ranges[i + 1], ranges[i], {}, 0, {}};
      const std::int64_t prompt = pair.rejected.before - pair.chosen.before;  // rows of it that are trained on
      pair.chosen.first += prompt;
      pair.chosen.count -= prompt;
      pair.sums = {sum_of(numbers, pair.chosen), sum_of(numbers, pair.rejected)};
      pair.likely_sum = prompt == 0 ? pair.sums.chosen : sum_of(numbers, pair.likely);
      if (!reference_.empty())
        pair.reference = {reference_.at(static_cast<std::size_t>(rows.batch.samples[i])),
                          reference_.at(static_cast<std::size_t>(rows.batch.samples[i + 1]))};
      pairs.push_back(pair);
    }
    return pairs;
  }

  spec::PreferenceOptions options_;
  std::vector<double> reference_;
  std::vector<std::string_view> names_;
};

class Dpo final : public PreferenceObjective {
 public:
  explicit Dpo(const ObjectiveOptions& options) : PreferenceObjective(spec::Algorithm::dpo, options) {}

 private:
  Verdict judge(const Pair& pair, const data::StepTotals& totals) const override {
    const OfPair ratios = pair.ratios();
    const double beta = options().beta;
    Verdict verdict;
    for (const spec::WeightedPairLoss& part : options().losses) {
      if (part.kind == spec::PairLoss::sft) {
        verdict.likely_slope -= part.weight * pairs_per_likely_token(totals);
        verdict.loss -= part.weight * pairs_per_likely_token(totals) * pair.likely_sum;
        continue;
      }
      const PairTerm term = pair_loss(part.kind, options(), ratios, pair.tokens());
      verdict.loss += part.weight * term.loss;
      verdict.slopes.chosen += part.weight * term.slopes.chosen;
      verdict.slopes.rejected += part.weight * term.slopes.rejected;
    }
    report(verdict, {beta * ratios.chosen, beta * ratios.rejected}, pair.sums);
    return verdict;
  }
};

class Simpo final : public PreferenceObjective {
 public:
  explicit Simpo(const ObjectiveOptions& options) : PreferenceObjective(spec::Algorithm::simpo, options) {}

 private:
  Verdict judge(const Pair& pair, const data::StepTotals&) const override {
    const OfPair means = pair.means(), tokens = pair.tokens();
    const PairTerm term = simpo_loss(options(), means);
    Verdict verdict{term.loss, {term.slopes.chosen / tokens.chosen, term.slopes.rejected / tokens.rejected}};
    report(verdict, {options().beta * means.chosen, options().beta * means.rejected}, means);
    return verdict;
  }
};

class Orpo final : public PreferenceObjective {
 public:
  explicit Orpo(const ObjectiveOptions& options) : PreferenceObjective(spec::Algorithm::orpo, options) {}

 private:
  Verdict judge(const Pair& pair, const data::StepTotals& totals) const override {
    const OfPair means = pair.means(), tokens = pair.tokens();
    const OddsTerm term = odds_ratio_loss(options(), means);
    const double likely = pairs_per_likely_token(totals);
    Verdict verdict{term.loss - likely * pair.likely_sum,
                    {term.slopes.chosen / tokens.chosen, term.slopes.rejected / tokens.rejected},
                    -likely};
    report(verdict, {options().beta * means.chosen, options().beta * means.rejected}, means);
    verdict.metrics[6] = -likely * pair.likely_sum;
    verdict.metrics[7] = term.log_ratio;
    verdict.metrics[8] = term.log_odds;
    return verdict;
  }
};

}  // namespace

std::unique_ptr<Objective> make_dpo(const ObjectiveOptions& options) { return std::make_unique<Dpo>(options); }
std::unique_ptr<Objective> make_simpo(const ObjectiveOptions& options) { return std::make_unique<Simpo>(options); }
std::unique_ptr<Objective> make_orpo(const ObjectiveOptions& options) { return std::make_unique<Orpo>(options); }

}  // namespace muster::train
