// When a sweep starts no more trials.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sweep/observation.hpp"
#include "sweep/sweep_spec.hpp"

namespace muster::sweep {

// Why no further trial begins, in words ("50 of 50 trials"); nothing while more may. finished: in the order in
// which trials ended; running: how many are running; seconds: since the sweep began; earlier: how many of the
// finished ones do not count as failures in a row, since the user has seen them.
std::optional<std::string> reason_to_end(const Limits& limits, std::span<const Observation> finished,
                                         std::size_t running, double seconds, std::size_t earlier = 0);

// Whether the newest of them are so many failures in a row that the sweep ends.
bool ended_by_failures(const Limits& limits, std::span<const Observation> finished, std::size_t earlier = 0);

}  // namespace muster::sweep
