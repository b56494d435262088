// What training by an algorithm measures in each step beside its loss: columns of metrics.csv.
#pragma once

#include <span>
#include <string_view>

#include "spec/values.hpp"

namespace muster::spec {

// In the order of the columns. The engine's objective gives them in this order. Evaluations measure the same, in columns
// that begin with "eval_".
std::span<const std::string_view> metrics_beside_loss(Algorithm algorithm);

}  // namespace muster::spec
