// What the evaluations of an experiment found, gathered from the jobs' folders.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "experiment/experiment_spec.hpp"
#include "experiment/job_folder.hpp"

namespace muster::experiment {

struct JobOutcome {
  const ExperimentJob* job = nullptr;
  Progress progress;
  nlohmann::ordered_json numbers = nlohmann::ordered_json::object();  // of result.json: plain values, no lists
  std::string sha256;                                                 // of the trained model; empty: none
};

Result<std::vector<JobOutcome>> outcomes(const ExperimentSpec& spec, std::span<const ExperimentJob> jobs,
                                         const std::filesystem::path& folder);

// For people: a line for each job.
std::string outcome_table(std::span<const JobOutcome> outcomes, bool colour);
// One object per line, for jobs that were evaluated.
std::string outcome_lines(std::span<const JobOutcome> outcomes);
std::string outcome_csv(std::span<const JobOutcome> outcomes);

// results.jsonl, results.csv and results.txt, each replaced whole.
Result<void> write_results(std::span<const JobOutcome> outcomes, const std::filesystem::path& folder);

}  // namespace muster::experiment
