// Pictures of a sweep: how it went, and which settings led where.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sweep/observation.hpp"
#include "sweep/sweep_spec.hpp"

namespace muster::sweep {

// The score of every trial in the order they ended, the best so far as a line, failures at the bottom.
std::string history_svg(std::string_view title, const SweepSpec& spec, std::span<const Observation> observations);

// Parallel coordinates: one axis for each parameter that varies and one for the score, one line for each trial, the
// better the stronger in colour. At most the best 400 trials are drawn.
std::string parallel_svg(std::string_view title, const SweepSpec& spec, std::span<const Observation> observations);

}  // namespace muster::sweep
