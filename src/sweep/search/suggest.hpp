// The next trial of a sweep.
#pragma once

#include <optional>
#include <span>

#include "sweep/observation.hpp"
#include "sweep/sweep_spec.hpp"

namespace muster::sweep {

// Everything that a suggestion depends on besides the spec. The order of neither list matters.
struct History {
  std::span<const Observation> finished;
  std::span<const Settings> running;
};

struct Suggestion {
  Settings settings;
  std::optional<double> cost_seconds;  // as the Bayesian method expects it, once it expects anything
};

// A pure function: the same spec and history give the same suggestion in every process, so that an interrupted
// sweep continues as it would have. Never something that is in the history already; nothing if the space holds nothing
// else.
std::optional<Suggestion> suggest(const SweepSpec& spec, const History& history);

}  // namespace muster::sweep
