// The folder of one job, and how far the job has got: only its files say.
//   start.json        the model it began with, and the digest of its weights
//   <stage>.json      how the stage ended; there when it has ended, and whole
//   data.jsonl        what was generated
//   train/, model     what was trained: runs of muster train, or what a command wrote
//   result.json       what the evaluation found
//   lock              held while a stage works
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "experiment/experiment_spec.hpp"

namespace muster::experiment {

enum class JobStatus { not_started, data_generated, model_trained, eval_completed, failed };
std::string_view name(JobStatus status);  // "NOT_STARTED"

// <stage>.json.
struct StageRecord {
  bool done = false;
  std::string reason;  // where it failed
  double seconds = 0;
  std::optional<std::string> model;   // train: where the model is
  std::optional<std::string> sha256;  // of its weights
  std::vector<std::string> command;
  std::string gpus;  // the mask it ran with
};

// start.json: what a job begins with.
struct StartRecord {
  std::string model;
  std::optional<std::string> sha256;  // of the weights; absent: a family's model, which may be a name or have none
  int from_round = 0;                 // 0: the family's model
  bool operator==(const StartRecord&) const = default;
};

class JobFolder {
 public:
  JobFolder(const std::filesystem::path& experiment, const schedule::JobId& job) : path_(experiment / job.text) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path lock() const { return path_ / "lock"; }
  std::filesystem::path train() const { return path_ / "train"; }
  std::filesystem::path answers() const { return path_ / "answers.jsonl"; }
  std::filesystem::path data() const { return path_ / "data.jsonl"; }
  std::filesystem::path result() const { return path_ / "result.json"; }
  // Where the command of a stage writes.
  std::filesystem::path output(StageKind kind) const;

  // Nothing if there is none; a damaged one is an error that names it.
  Result<std::optional<StageRecord>> read(StageKind kind) const;
  Result<std::optional<StartRecord>> read_start() const;
  Result<void> write(StageKind kind, const StageRecord& record) const;
  Result<void> write_start(const StartRecord& record) const;
  void forget(StageKind kind) const;

 private:
  std::filesystem::path record(StageKind kind) const;

  std::filesystem::path path_;
};

struct Progress {
  std::size_t done = 0;  // of the wanted stages, from the first on
  JobStatus status = JobStatus::not_started;
  std::string reason;  // failed: which stage, and why
};

Result<Progress> progress_of(const ExperimentSpec& spec, const JobFolder& folder);

// The SHA-256 of a model's weights: of the file, if there is one; of the list of digests and names, if
// there are several. Weights are *.safetensors, *.gguf, *.bin, *.pt; in a folder without any, all its files count.
Result<std::string> digest_of_weights(const std::filesystem::path& model);

}  // namespace muster::experiment
