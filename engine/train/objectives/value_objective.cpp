#include "train/objectives/value_objective.hpp"

#include <algorithm>
#include <array>

#include "train/objectives/sequence_rows.hpp"
#include "train/objectives/value_loss.hpp"

namespace muster::train {
namespace {

class ValueObjective final : public Objective {
 public:
  explicit ValueObjective(const spec::CriticOptions& critic) : critic_(critic) {}

  std::span<const std::string_view> metrics() const override {
    static constexpr std::array<std::string_view, 3> names{"loss", "loss/value_avg", "val/clipfrac_avg"};
    return names;
  }
  // As of the policy: a mean over the tokens of the step.
  std::int64_t normalizer(const data::StepTotals& totals) const override {
    return std::max<std::int64_t>(totals.trained_tokens, 1);
  }
  bool reads_tokens() const override { return false; }
  bool reads_scores() const override { return true; }
  at::Tensor weigh(const TrainedRows&) const override { return {}; }

  at::Tensor weigh_scores(const TrainedRows& rows) const override {
    return of_rows(rows, [this](const ValueTerm& term) { return critic_.value_weight * term.slope; }).unsqueeze(1);
  }

  std::vector<at::Tensor> measure(const TrainedRows& rows) const override {
    return {of_rows(rows, [this](const ValueTerm& term) { return critic_.value_weight * term.loss; }),
            of_rows(rows, [](const ValueTerm& term) { return term.loss; }),
            of_rows(rows, [](const ValueTerm& term) { return term.clipped ? 1.0 : 0.0; })};
  }

 private:
  // float32 [trained rows]; what equal answers have counts as often as there are such.
  template <class Number>
  at::Tensor of_rows(const TrainedRows& rows, const Number& number_of) const {
    const at::Tensor scores = rows.scores.cpu().contiguous();
    const auto* score = scores.const_data_ptr<float>();
    at::Tensor numbers = at::empty({std::ssize(rows.batch.trained_rows)}, at::kFloat);
    auto* number = numbers.mutable_data_ptr<float>();
    const std::vector<RowRange> ranges = ranges_of(rows.batch);
    for (std::size_t i = 0; i < ranges.size(); ++i)
      for (std::int64_t row = ranges[i].first; row < ranges[i].first + ranges[i].count; ++row) {
        const auto at = static_cast<std::size_t>(row);
        const ValueTerm term = value_loss(static_cast<double>(score[row]), static_cast<double>(rows.batch.values[at]),
                                          rows.batch.returns[at], critic_.clip);
        number[row] = static_cast<float>(number_of(term) * static_cast<double>(rows.batch.copies[i]));
      }
    return numbers.to(rows.device);
  }

  spec::CriticOptions critic_;
};

}  // namespace

std::unique_ptr<Objective> make_value_objective(const spec::CriticOptions& critic) {
  return std::make_unique<ValueObjective>(critic);
}

}  // namespace muster::train
