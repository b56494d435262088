// A matrix of experiments as jobs: algorithms × families × data sets × rounds, each in stages.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "schedule/job.hpp"

namespace muster::experiment {

struct MatrixStage {
  std::string name;
  schedule::GpuRequest gpus;
  std::optional<schedule::Duration> prediction;  // on gpus.minimum GPUs
};

struct Matrix {
  std::vector<std::string> algorithms, families, datasets;
  int rounds = 1;
  // Samples can be spread over any number of GPUs, so the first takes those that no other job can use.
  std::vector<MatrixStage> stages = {{"generate", {1, schedule::most_gpus}, {}}, {"train", {1, {}}, {}}, {"evaluate", {1, {}}, {}}};
  bool parallel = true;  // else one job at a time
  int priority = 0;
  int retries = 0;
  std::optional<schedule::Duration> timeout, heartbeat;  // of each stage
};

// One cell of the matrix in one round. Its stages are scheduled.
struct MatrixCell {
  schedule::JobId id;  // {algorithm}_{family}_{dataset}_r{round}
  std::string algorithm, family, dataset;
  int round = 1;
  std::vector<schedule::Job> stages;  // ids {id}.{stage}, one after another
};

// Algorithms outermost, rounds innermost.
Result<std::vector<MatrixCell>> expand(const Matrix& matrix);

// How many stages of a job are already done, from the first on.
using StagesDone = std::function<std::size_t(const MatrixCell&)>;

// What is left to submit, in an order in which that is possible: completed stages are left out, and nothing waits for
// them.
std::vector<schedule::Job> jobs_to_submit(const Matrix& matrix, std::span<const MatrixCell> jobs,
                                const StagesDone& done = {});

}  // namespace muster::experiment
