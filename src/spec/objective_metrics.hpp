// What training by an algorithm measures in each step beside its loss: columns of metrics.csv.
#pragma once

#include <span>
#include <string_view>

#include "spec/values.hpp"

namespace muster::spec {

// In the order of the columns. The engine's objective gives them in this order. Evaluations measure the same, in columns
// that begin with "eval_".
std::span<const std::string_view> metrics_beside_loss(Algorithm algorithm);

// Beside the loss, where answers of conversations and replies to them are both learnt.
std::span<const std::string_view> metrics_of_combined();

// The last of metrics_of_round where a critic is trained: TRL's names.
std::span<const std::string_view> metrics_of_earnings();

// What is known of the answers of a round before anything is trained on them: columns of every step of the round. Beside
// these "rewards/NAME/mean" and "rewards/NAME/std" of each function that judges. None where no answers are sampled.
std::span<const std::string_view> metrics_of_round(Algorithm algorithm);

// Beside these, where answers are given in an environment: how many an episode has.
inline constexpr std::string_view turns_metric = "turns/mean";

}  // namespace muster::spec
