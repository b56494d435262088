#include "train/rollouts/returns.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "spec/objective_metrics.hpp"

namespace muster::train {
namespace {

double divergence_at(const Rollout& answer, std::size_t token, const spec::CriticOptions& options) {
  if (answer.reference.empty()) return 0;
  const double away =
      static_cast<double>(answer.reference[token]) - static_cast<double>(answer.log_probabilities[token]);
  return options.divergence == spec::DivergenceEstimate::k1 ? -away : std::expm1(away) - away;
}

double divergence_of(const Rollout& answer, const spec::CriticOptions& options) {
  double sum = 0;
  for (std::size_t i = 0; i < answer.tokens.size(); ++i) sum += divergence_at(answer, i, options);
  return sum;
}

double score_of(const Rollout& answer, const spec::CriticOptions& options) {
  return *answer.reward - (answer.ended ? 0 : options.missing_end_penalty);
}

// Nothing is earned after the end: the value there is 0.
void estimate(Rollout& answer, const spec::CriticOptions& options, double divergence_weight) {
  const std::size_t count = answer.tokens.size();
  answer.token_advantages.assign(count, 0);
  answer.returns.assign(count, 0);
  double next_value = 0, next_advantage = 0;
  for (std::size_t i = count; i-- > 0;) {
    const auto value = static_cast<double>(answer.values[i]);
    double reward = -divergence_weight * divergence_at(answer, i, options);
    if (i + 1 == count) reward += score_of(answer, options);
    const double surprise = reward + options.discount * next_value - value;
    next_advantage = surprise + options.discount * options.smoothing * next_advantage;
    next_value = value;
    answer.token_advantages[i] = next_advantage;
    answer.returns[i] = next_advantage + value;
  }
}

void whiten(std::vector<Rollout>& answers) {
  constexpr double floor = 1e-8;
  double sum = 0, squares = 0, count = 0;
  for (const Rollout& answer : answers)
    for (const double advantage : answer.token_advantages) sum += advantage, ++count;
  const double mean = sum / std::max(count, 1.0);
  for (const Rollout& answer : answers)
    for (const double advantage : answer.token_advantages) squares += (advantage - mean) * (advantage - mean);
  const double scale = 1 / std::sqrt(squares / std::max(count - 1, 1.0) + floor);
  for (Rollout& answer : answers)
    for (double& advantage : answer.token_advantages) advantage = (advantage - mean) * scale;
}

// Over the answers with a reward.
template <class Number>
double mean_of(const std::vector<Rollout>& answers, Number&& number) {
  double sum = 0, count = 0;
  for (const Rollout& answer : answers)
    if (answer.reward) sum += number(answer), ++count;
  return sum / std::max(count, 1.0);
}

}  // namespace

void give_token_advantages(std::vector<Rollout>& answers, const spec::CriticOptions& options,
                           double divergence_weight) {
  for (Rollout& answer : answers)
    if (answer.reward) estimate(answer, options, divergence_weight);
  if (options.whitens) whiten(answers);
  for (Rollout& answer : answers) {
    const auto& all = answer.token_advantages;
    answer.advantage = all.empty() ? 0 : std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  }
}

std::vector<wire::NamedNumber> earnings_of(const std::vector<Rollout>& answers, const spec::CriticOptions& options,
                                           double divergence_weight) {
  const double divergence = mean_of(answers, [&](const Rollout& one) { return divergence_of(one, options); });
  const double entropy = mean_of(answers, [](const Rollout& one) {
    double sum = 0;
    for (const float probability : one.log_probabilities) sum -= static_cast<double>(probability);
    return sum;
  });
  const double score = mean_of(answers, [&](const Rollout& one) { return score_of(one, options); });
  const double lost = 0 - divergence_weight * divergence;
  const std::vector<double> values{divergence, entropy, lost, score + lost, score, divergence_weight};
  const auto names = spec::metrics_of_earnings();
  std::vector<wire::NamedNumber> metrics;
  for (std::size_t i = 0; i < names.size(); ++i) metrics.push_back({std::string(names[i]), values[i]});
  return metrics;
}

double next_divergence_weight(const std::vector<Rollout>& answers, const spec::CriticOptions& options,
                              double divergence_weight) {
  constexpr double most_change = 0.2;
  if (!options.divergence_target) return divergence_weight;
  const double divergence = mean_of(answers, [&](const Rollout& one) { return divergence_of(one, options); });
  const double error = std::clamp(divergence / *options.divergence_target - 1, -most_change, most_change);
  return divergence_weight * (1 + error * static_cast<double>(answers.size()) / options.divergence_horizon);
}

}  // namespace muster::train
