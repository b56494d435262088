#include "train/preference_objective.hpp"

#include <array>
#include <stdexcept>

#include "spec/objective_metrics.hpp"
#include "train/pair_losses.hpp"

namespace muster::train {
namespace {

// Trained rows of one sequence, by their numbers among those of the pass.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t before = 0;  // rows of the sequence before the first of them
};

std::vector<RowRange> ranges_of(const data::MicroBatch& batch) {
  std::vector<RowRange> ranges;
  std::int64_t next = 0, begin = 0;
  const auto trained = std::ssize(batch.trained_rows);
  for (const std::int64_t rows : batch.parts) {
    RowRange range{next, 0, next < trained ? batch.trained_rows[static_cast<std::size_t>(next)] - begin : 0};
    begin += rows;
    while (next < trained && batch.trained_rows[static_cast<std::size_t>(next)] < begin) ++next;
    range.count = next - range.first;
    ranges.push_back(range);
  }
  return ranges;
}

double sum_of(const float* numbers, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(numbers[i]);
  return sum;
}

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
  bool weighs_by_probability() const override { return true; }

  at::Tensor weigh(const TrainedRows& rows) const override {
    at::Tensor weights = at::zeros({std::ssize(rows.batch.trained_rows)}, at::kFloat);
    const auto add = [numbers = weights.mutable_data_ptr<float>()](const RowRange& range, double slope) {
      for (std::int64_t i = range.first; i < range.first + range.count; ++i)
        numbers[i] = static_cast<float>(static_cast<double>(numbers[i]) - slope);
    };
    for (const Pair& pair : pairs_of(rows)) {
      const Verdict verdict = judge(pair, rows.totals);
      add(pair.chosen, verdict.slopes.chosen);
      add(pair.rejected, verdict.slopes.rejected);
      if (verdict.likely_slope != 0) add(pair.likely, verdict.likely_slope);
    }
    return weights.to(rows.device);
  }

  std::vector<at::Tensor> measure(const TrainedRows& rows) const override {
    const std::vector<Pair> pairs = pairs_of(rows);
    const auto count = std::ssize(pairs), columns = std::ssize(names_);
    at::Tensor terms = at::empty({columns, count}, at::kFloat);
    auto* number = terms.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < count; ++i) {
      const Verdict verdict = judge(pairs[static_cast<std::size_t>(i)], rows.totals);
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
  static void describe(Verdict& verdict, const OfPair& rewards, const OfPair& log_probabilities) {
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
    const at::Tensor host = rows.log_probabilities.cpu();
    const auto* numbers = host.const_data_ptr<float>();
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < ranges.size(); i += 2) {
      Pair pair{ranges[i], ranges[i + 1], ranges[i], {}, 0, {}};
      const std::int64_t prompt = pair.rejected.before - pair.chosen.before;  // rows of it that are trained on
      pair.chosen.first += prompt;
      pair.chosen.count -= prompt;
      pair.sums = {sum_of(numbers + pair.chosen.first, pair.chosen.count),
                   sum_of(numbers + pair.rejected.first, pair.rejected.count)};
      pair.likely_sum = prompt == 0 ? pair.sums.chosen : sum_of(numbers + pair.likely.first, pair.likely.count);
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
    describe(verdict, {beta * ratios.chosen, beta * ratios.rejected}, pair.sums);
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
    describe(verdict, {options().beta * means.chosen, options().beta * means.rejected}, means);
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
    describe(verdict, {options().beta * means.chosen, options().beta * means.rejected}, means);
    verdict.metrics[6] = -likely * pair.likely_sum;
    verdict.metrics[7] = term.log_ratio;
    verdict.metrics[8] = term.log_odds;
    return verdict;
  }
};

}  // namespace

std::vector<double> sums_of_sequences(const data::MicroBatch& batch, const at::Tensor& log_probabilities) {
  const at::Tensor host = log_probabilities.cpu();
  std::vector<double> sums;
  for (const RowRange& range : ranges_of(batch))
    sums.push_back(sum_of(host.const_data_ptr<float>() + range.first, range.count));
  return sums;
}

std::unique_ptr<Objective> make_dpo(const ObjectiveOptions& options) { return std::make_unique<Dpo>(options); }
std::unique_ptr<Objective> make_simpo(const ObjectiveOptions& options) { return std::make_unique<Simpo>(options); }
std::unique_ptr<Objective> make_orpo(const ObjectiveOptions& options) { return std::make_unique<Orpo>(options); }

}  // namespace muster::train
