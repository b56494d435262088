// Whether the files and programs that an experiment names exist, before anything is started.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "experiment/experiment_spec.hpp"

namespace muster::experiment {

// What is missing: prompts, questions, training data, models given as paths, the programs of commands. Not checked are
// names that are only known when a stage runs (${…}), built-in ones, and models that are looked up by name.
std::vector<Problem> missing_paths(const ExperimentSpec& spec);

}  // namespace muster::experiment
