#include "train/objectives/reward_objective.hpp"

#include <array>
#include <bit>
#include <cmath>

#include "spec/objective_metrics.hpp"

namespace muster::train {
namespace {

// What a pair's scores are compared by, in double: it follows from the two scores and the margin alone.
struct PairOfScores {
  double chosen = 0, rejected = 0, margin = 0;

  double ahead() const { return chosen - rejected; }
  double sum() const { return chosen + rejected; }
  // −ln σ(ahead − margin), and its slope by the chosen score.
  double loss() const {
    const double x = ahead() - margin;
    return x > 0 ? std::log1p(std::exp(-x)) : -x + std::log1p(std::exp(x));
  }
  double slope() const { return -1 / (1 + std::exp(ahead() - margin)); }
};

class RewardObjective final : public Objective {
 public:
  explicit RewardObjective(const ObjectiveOptions& options) : centering_(options.reward_model->centering) {
    names_.emplace_back("loss");
    for (const std::string_view name : spec::metrics_beside_loss(spec::Algorithm::reward)) names_.push_back(name);
  }

  std::span<const std::string_view> metrics() const override { return names_; }
  std::span<const Extreme> extremes() const override {
    static constexpr std::array both{Extreme::least, Extreme::greatest};
    return both;
  }
  std::int64_t normalizer(const data::StepTotals& totals) const override { return totals.units; }
  bool reads_tokens() const override { return false; }
  bool reads_scores() const override { return true; }
  at::Tensor weigh(const TrainedRows&) const override { return {}; }
  at::Tensor weigh_scores(const TrainedRows& rows) const override;
  std::vector<at::Tensor> measure(const TrainedRows& rows) const override;

 private:
  static std::vector<PairOfScores> pairs_of(const TrainedRows& rows);

  double centering_;
  std::vector<std::string_view> names_;
};

// Both samples of a pair are in the same pass, the chosen one first, each with one row.
std::vector<PairOfScores> RewardObjective::pairs_of(const TrainedRows& rows) {
  const at::Tensor host = rows.scores.cpu().contiguous();
  const auto* score = host.const_data_ptr<float>();
  std::vector<PairOfScores> pairs;
  for (std::size_t i = 0; i + 1 < rows.batch.parts.size(); i += 2) {
    const auto margin = std::bit_cast<float>(static_cast<std::uint32_t>(rows.batch.labels[i]));
    pairs.push_back({static_cast<double>(score[i]), static_cast<double>(score[i + 1]), static_cast<double>(margin)});
  }
  return pairs;
}

at::Tensor RewardObjective::weigh_scores(const TrainedRows& rows) const {
  std::vector<float> weights;
  for (const PairOfScores& pair : pairs_of(rows)) {
    const double centred = 2 * centering_ * pair.sum();
    weights.push_back(static_cast<float>(centred + pair.slope()));
    weights.push_back(static_cast<float>(centred - pair.slope()));
  }
  return at::tensor(weights, at::kFloat).unsqueeze(1).to(rows.device);
}

std::vector<at::Tensor> RewardObjective::measure(const TrainedRows& rows) const {
  std::vector<float> losses, means, right, ahead, scores;
  for (const PairOfScores& pair : pairs_of(rows)) {
    losses.push_back(static_cast<float>(pair.loss() + centering_ * pair.sum() * pair.sum()));
    means.push_back(static_cast<float>(pair.sum() / 2));
    right.push_back(pair.ahead() > 0 ? 1 : 0);
    ahead.push_back(static_cast<float>(pair.ahead()));
    scores.push_back(static_cast<float>(pair.chosen));
    scores.push_back(static_cast<float>(pair.rejected));
  }
  std::vector<at::Tensor> terms;
  for (const std::vector<float>* all : {&losses, &means, &right, &ahead, &scores, &scores})
    terms.push_back(at::tensor(*all, at::kFloat).to(rows.device));
  return terms;
}

}  // namespace

std::unique_ptr<Objective> make_reward(const ObjectiveOptions& options) {
  return std::make_unique<RewardObjective>(options);
}

}  // namespace muster::train
