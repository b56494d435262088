// When a sweep starts no more trials.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sweep/observation.hpp"
#include "sweep/sweep_spec.hpp"

namespace muster::sweep {

// Why no further trial begins, in words ("50 of 50 trials"); nothing while there may be more. finished: in the order in
// which trials ended; running: how many are under way; seconds: since the sweep began.
std::optional<std::string> reason_to_end(const Limits& limits, std::span<const Observation> finished,
                                         std::size_t running, double seconds);

}  // namespace muster::sweep
