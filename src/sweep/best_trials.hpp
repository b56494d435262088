// The best trials of a sweep, and their settings in the forms that other programs take.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sweep/observation.hpp"

namespace muster::sweep {

// Those that succeeded, best first, at most this many; of equal scores the cheaper one, then the earlier one.
std::vector<Observation> best_trials(std::span<const Observation> observations, Goal goal, std::size_t most);

// "training:\n  learning_rate: 0.001\n": a configuration file with the trial's settings, paths as nested tables.
std::string yaml_patch(const Settings& settings);
// "training.learning_rate=0.001", …: arguments of muster's commands, to be quoted for a shell.
std::vector<std::string> override_list(const Settings& settings);

}  // namespace muster::sweep
