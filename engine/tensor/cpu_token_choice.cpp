#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/cpu_primitives.hpp"

namespace muster::tensor {
namespace {

std::size_t most_likely(std::span<const float> logits) {
  return static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
}

double log_probability(std::span<const float> logits, std::size_t token, double temperature) {
  const double highest = *std::ranges::max_element(logits);
  double total = 0;
  for (const float logit : logits) total += std::exp((logit - highest) / temperature);
  return (logits[token] - highest) / temperature - std::log(total);
}

void penalize(std::vector<float>& logits, std::span<const std::int32_t> seen, double penalty) {
  std::vector<std::int32_t> tokens(seen.begin(), seen.end());
  std::ranges::sort(tokens);
  const auto repeated = std::ranges::unique(tokens);
  tokens.erase(repeated.begin(), repeated.end());
  for (const std::int32_t token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= logits.size()) continue;
    float& logit = logits[static_cast<std::size_t>(token)];
    logit = static_cast<float>(logit < 0 ? logit * penalty : logit / penalty);
  }
}

// Equal to the last one that stays: stays, too.
void keep_highest(std::vector<double>& weights, std::int64_t count) {
  if (count <= 0 || static_cast<std::size_t>(count) >= weights.size()) return;
  std::vector<double> sorted = weights;
  const auto last = sorted.begin() + (count - 1);
  std::ranges::nth_element(sorted, last, std::greater<>());
  const double lowest = *last;
  for (double& weight : weights)
    if (weight < lowest) weight = 0;
}

void keep_likely(std::vector<double>& weights, double share) {
  if (share >= 1) return;
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (const std::size_t token : order) {
    if (sum >= share * total) weights[token] = 0;
    sum += weights[token];
  }
}

std::size_t draw(const std::vector<double>& weights, double uniform) {
  const double target = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  std::size_t last = 0;
  for (std::size_t token = 0; token < weights.size(); ++token) {
    if (weights[token] <= 0) continue;
    sum += weights[token];
    last = token;
    if (sum > target) break;
  }
  return last;
}

class CpuTokenChoice final : public TokenChoice {
 public:
  std::vector<ChosenToken> choose(const SamplingRules& rules, const at::Tensor& logits,
                                  std::span<const TokenQuery> queries) override {
    const at::Tensor rows = logits.to(at::kFloat).contiguous();
    const auto width = static_cast<std::size_t>(rows.size(1));
    std::vector<ChosenToken> chosen;
    for (std::size_t i = 0; i < queries.size(); ++i)
      chosen.push_back(choose_one(rules, {rows.const_data_ptr<float>() + i * width, width}, queries[i]));
    return chosen;
  }

 private:
  static ChosenToken choose_one(const SamplingRules& rules, std::span<const float> logits, const TokenQuery& query) {
    const double temperature = rules.temperature > 0 ? rules.temperature : 1;
    if (query.given)
      return {*query.given,
              static_cast<float>(log_probability(logits, static_cast<std::size_t>(*query.given), temperature))};
    std::vector<float> judged(logits.begin(), logits.end());
    if (rules.repetition_penalty != 1) penalize(judged, query.seen, rules.repetition_penalty);
    std::size_t token = most_likely(judged);
    if (rules.temperature > 0) {
      const double highest = judged[token];
      std::vector<double> weights(judged.size());
      for (std::size_t i = 0; i < judged.size(); ++i) weights[i] = std::exp((judged[i] - highest) / rules.temperature);
      keep_highest(weights, rules.top_k);
      keep_likely(weights, rules.top_p);
      token = draw(weights, query.uniform);
    }
    const double found = rules.log_probabilities ? log_probability(logits, token, temperature) : 0;
    return {static_cast<std::int32_t>(token), static_cast<float>(found)};
  }
};

}  // namespace

std::unique_ptr<TokenChoice> make_cpu_token_choice(std::shared_ptr<kernels::ThreadTeam>) {
  return std::make_unique<CpuTokenChoice>();
}

}  // namespace muster::tensor
