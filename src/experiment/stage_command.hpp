// What one stage of a job runs.
#pragma once

#include <filesystem>
#include <optional>
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
  bool is_trained = false;  // the model was trained by an earlier round, or by this one
  int gpus = 0;             // how many it was given
  // GPUs that exist only in a file: they decide what runs when, and this many CPU ranks compute.
  std::optional<int> ranks_instead = {};
};

// Program first.
Result<std::vector<std::string>> stage_command(const ExperimentSpec& spec, const ExperimentJob& job, StageKind kind,
                                               const JobFolder& folder, const StageFacts& facts);

}  // namespace muster::experiment
