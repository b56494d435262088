// Experiment files: docs/experiments.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "experiment/experiment_spec.hpp"

namespace muster::experiment {

// overrides: "a.b=value", which override the text. source names the text in messages. Every problem at once.
Result<ExperimentSpec> read_experiment(std::string_view text, std::string_view source,
                                       const std::vector<std::string>& overrides = {});

// A small model learns to add, in two sizes and two rounds.
std::string_view builtin_experiment();

// Everything in the spec, as a file that reads back to the same.
std::string experiment_text(const ExperimentSpec& spec);

// The keys in which two specs differ, of those that decide the outcome of jobs that both have. When and where jobs run,
// how many rounds there are and which other cells the matrix has are not among them.
std::vector<std::string> differences(const ExperimentSpec& before, const ExperimentSpec& now);

}  // namespace muster::experiment
