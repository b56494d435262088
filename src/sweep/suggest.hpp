// The next trial of a sweep.
#pragma once

#include <optional>
#include <span>

#include "sweep/observation.hpp"
#include "sweep/sweep_spec.hpp"

namespace muster::sweep {

// All that a suggestion follows from beside the spec. The order of neither list matters.
struct History {
  std::span<const Observation> finished;
  std::span<const Settings> running;
};

struct Suggestion {
  Settings settings;
  std::optional<double> cost_seconds;  // as the Bayesian method expects it, once it expects anything
};

// A pure function: the same spec and history give the same suggestion, in whatever process, so that a sweep that was
// interrupted goes on as it would have. Never what is in the history already; nothing when the space holds nothing
// else.
std::optional<Suggestion> suggest(const SweepSpec& spec, const History& history);

}  // namespace muster::sweep
