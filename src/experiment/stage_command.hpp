// What one stage of a job runs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "experiment/experiment_spec.hpp"
#include "experiment/job_folder.hpp"

namespace muster::experiment {

// What is known only when the stage begins.
struct StageFacts {
  std::string program;      // muster itself
  std::string model;        // what the stage starts from
  bool is_trained = false;  // the model is one that a round before, or this one, has trained
  int gpus = 0;             // that it was given
};

// Program first.
Result<std::vector<std::string>> stage_command(const ExperimentSpec& spec, const ExperimentJob& job, StageKind kind,
                                               const JobFolder& folder, const StageFacts& facts);

}  // namespace muster::experiment
