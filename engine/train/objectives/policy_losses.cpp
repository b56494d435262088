#include "train/objectives/policy_losses.hpp"

#include <algorithm>
#include <cmath>

namespace muster::train {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A soft gate in the place of a clip: its slope is 1 where the ratio is.
PolicyTerm gated_term(const spec::PolicyOptions& options, double advantage, double ratio) {
  const double sharpness = advantage > 0 ? options.gate_above : options.gate_below;
  const double gate = sigmoid(sharpness * (ratio - 1));
  return {-4 / sharpness * gate * advantage, -4 * gate * (1 - gate) * ratio * advantage};
}

PolicyTerm weighted_term(const spec::PolicyOptions& options, double advantage, double ratio, double log_probability) {
  const double weight = std::min(ratio, options.clip_high) * advantage;
  PolicyTerm term{-weight * log_probability, -weight};
  term.clipped_high = ratio > options.clip_high && advantage > 0;
  return term;
}

// −min(ratio · advantage, clipped ratio · advantage)
PolicyTerm clipped_term(const spec::PolicyOptions& options, double advantage, double ratio) {
  const double low = 1 - options.clip_low, high = 1 + options.clip_high;
  const double capped = std::min(ratio, options.ratio_cap.value_or(ratio));
  const double plain = capped * advantage, clipped = std::clamp(ratio, low, high) * advantage;
  PolicyTerm term{-std::min(plain, clipped)};
  term.clipped_low = ratio < low && advantage < 0;
  term.clipped_high = ratio > high && advantage > 0;
  const bool follows = capped == ratio && !term.clipped_low && !term.clipped_high;
  if (follows) term.slope = -ratio * advantage;
  return term;
}

}  // namespace

PolicyTerm policy_term(const spec::PolicyOptions& options, double advantage, double log_ratio, double log_probability) {
  const double ratio = std::exp(log_ratio);
  if (options.loss == spec::PolicyLoss::sapo) return gated_term(options, advantage, ratio);
  if (options.loss == spec::PolicyLoss::cispo) return weighted_term(options, advantage, ratio, log_probability);
  return clipped_term(options, advantage, ratio);
}

double hold_to_reference(PolicyTerm& term, double beta, double log_ratio, double log_probability, double reference) {
  const double ratio = std::exp(log_ratio), away = reference - log_probability;
  const double divergence = ratio * (std::expm1(away) - away);
  term.loss += beta * divergence;
  term.slope -= beta * ratio * away;
  return divergence;
}

double share_of_token(const spec::PolicyOptions& options, std::int64_t answer_tokens) {
  const bool by_answer = options.loss == spec::PolicyLoss::grpo || options.loss == spec::PolicyLoss::sapo;
  return by_answer ? 1 / static_cast<double>(std::max<std::int64_t>(answer_tokens, 1)) : 1;
}

}  // namespace muster::train
