// As policy_objective.cpp, fresh answers are not computed twice: there every ratio is 1.
#include "train/objectives/actor_critic.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "spec/objective_metrics.hpp"
#include "train/objectives/policy_losses.hpp"
#include "train/objectives/sequence_rows.hpp"
#include "train/objectives/value_loss.hpp"

namespace muster::train {
namespace {

constexpr std::size_t columns = 10;  // the loss, and spec::metrics_beside_loss

class ActorCritic final : public Objective {
 public:
  explicit ActorCritic(const ObjectiveOptions& options)
      : policy_(*options.policy), critic_(*options.critic), has_values_(!options.values_are_elsewhere) {
    names_.emplace_back("loss");
    for (const std::string_view name : spec::metrics_beside_loss(spec::Algorithm::ppo)) names_.push_back(name);
  }

  std::span<const std::string_view> metrics() const override { return names_; }
  double temperature() const override { return policy_.temperature; }
  bool reads_scores() const override { return has_values_; }
  bool weighs_by_probability(const StepFacts& step) const override { return !step.is_fresh; }

  // A mean over the tokens of the step.
  std::int64_t normalizer(const data::StepTotals& totals) const override {
    return std::max<std::int64_t>(totals.trained_tokens, 1);
  }

  at::Tensor weigh(const TrainedRows& rows) const override {
    return fill(rows, [](const Token& token) { return -token.policy.slope; });
  }

  at::Tensor weigh_scores(const TrainedRows& rows) const override {
    return fill(rows, [this](const Token& token) { return critic_.value_weight * token.value.slope; }).unsqueeze(1);
  }

  at::Tensor weigh_entropies(const TrainedRows& rows) const override {
    return fill(rows, [this](const Token&) { return critic_.entropy_weight; });
  }

  std::vector<at::Tensor> measure(const TrainedRows& rows) const override {
    const auto count = std::ssize(rows.batch.trained_rows);
    at::Tensor terms = at::zeros({static_cast<std::int64_t>(columns), count}, at::kFloat);
    auto* number = terms.mutable_data_ptr<float>();
    const double learnt = static_cast<double>(normalizer(rows.step.totals)) /
                          static_cast<double>(std::max<std::int64_t>(rows.step.totals.weighed_tokens, 1));
    visit(rows, [&](std::int64_t row, const Token& token) {
      const double loss = token.policy.loss + critic_.value_weight * token.value.loss -
                          critic_.entropy_weight * token.entropy;
      const bool clipped = token.policy.clipped_low || token.policy.clipped_high;
      const std::array<double, columns> found{loss,
                                              token.log_ratio * token.log_ratio / 2,
                                              std::expm1(token.log_ratio) - token.log_ratio,
                                              clipped ? 1.0 : 0.0,
                                              token.entropy,
                                              token.policy.loss,
                                              token.value.loss,
                                              std::exp(token.log_ratio),
                                              token.value.clipped ? 1.0 : 0.0,
                                              std::abs(token.difference) * learnt};
      for (std::size_t column = 0; column < columns; ++column)
        number[static_cast<std::int64_t>(column) * count + row] = static_cast<float>(found[column] * token.copies);
    });
    return terms.to(rows.device).unbind(0);
  }

 private:
  struct Token {
    PolicyTerm policy;
    ValueTerm value;
    double log_ratio = 0;   // that counts
    double difference = 0;  // of the log-probabilities, now and when it was drawn
    double entropy = 0;
    double copies = 1;
  };

  at::Tensor fill(const TrainedRows& rows, const std::function<double(const Token&)>& weight) const {
    at::Tensor weights = at::empty({std::ssize(rows.batch.trained_rows)}, at::kFloat);
    auto* number = weights.mutable_data_ptr<float>();
    visit(rows, [&](std::int64_t row, const Token& token) {
      number[row] = static_cast<float>(weight(token) * token.copies);
    });
    return weights.to(rows.device);
  }

  void visit(const TrainedRows& rows, const std::function<void(std::int64_t row, const Token&)>& use) const {
    const auto on_host = [](const at::Tensor& numbers) {
      return numbers.defined() ? numbers.cpu().contiguous() : at::Tensor();
    };
    const at::Tensor now = on_host(rows.log_probabilities), scores = on_host(rows.scores),
                     entropies = on_host(rows.entropies);
    const auto of = [](const at::Tensor& numbers, std::int64_t row, double otherwise) {
      return numbers.defined() ? static_cast<double>(numbers.const_data_ptr<float>()[row]) : otherwise;
    };
    const data::MicroBatch& batch = rows.batch;
    const std::vector<RowRange> ranges = ranges_of(batch);
    for (std::size_t i = 0; i < ranges.size(); ++i)
      for (std::int64_t row = ranges[i].first; row < ranges[i].first + ranges[i].count; ++row) {
        const auto at = static_cast<std::size_t>(row);
        const auto drawn = static_cast<double>(batch.sampled[at]), expected = static_cast<double>(batch.values[at]);
        Token token;
        token.copies = static_cast<double>(batch.copies[i]);
        token.difference = of(now, row, drawn) - drawn;
        token.log_ratio = rows.step.is_fresh ? 0 : token.difference;
        token.policy = policy_term(policy_, batch.token_advantages[at], token.log_ratio, drawn + token.difference);
        if (has_values_) token.value = value_loss(of(scores, row, expected), expected, batch.returns[at], critic_.clip);
        token.entropy = of(entropies, row, 0);
        use(row, token);
      }
  }

  spec::PolicyOptions policy_;
  spec::CriticOptions critic_;
  bool has_values_;
  std::vector<std::string_view> names_;
};

}  // namespace

std::unique_ptr<Objective> make_actor_critic(const ObjectiveOptions& options) {
  return std::make_unique<ActorCritic>(options);
}

}  // namespace muster::train
