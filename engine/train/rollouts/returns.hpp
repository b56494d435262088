// What each token of an answer turned out to be worth, against what was expected of it (PPO).
#pragma once

#include <cstdint>
#include <vector>

#include "spec/policy_options.hpp"
#include "train/rollouts/rollout.hpp"
#include "wire/step_record.hpp"

namespace muster::train {

// Advantages by generalised estimation and returns of each answer's tokens, from Rollout::values. The last token earns the
// answer's reward, each one loses divergence_weight times its divergence from the reference. In double and in the order of
// the answers: the same on every rank. Answers without a reward get none.
void give_token_advantages(std::vector<Rollout>& answers, const spec::CriticOptions& options, double divergence_weight);

// spec::metrics_of_earnings of the answers with a reward.
std::vector<wire::NamedNumber> earnings_of(const std::vector<Rollout>& answers, const spec::CriticOptions& options,
                                           double divergence_weight);

// That of the next round: more where answers were further away than options.divergence_target, less where nearer.
double next_divergence_weight(const std::vector<Rollout>& answers, const spec::CriticOptions& options,
                              double divergence_weight);

}  // namespace muster::train
