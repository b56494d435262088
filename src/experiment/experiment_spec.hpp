// What an experiment is: algorithms × families × data sets × rounds, and what each stage of a job does.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "experiment/matrix.hpp"
#include "schedule/job.hpp"
#include "spec/values.hpp"

namespace muster::experiment {

// One setting of muster's own commands, as in docs/configuration.md.
struct Setting {
  std::string key, value;
  std::string where;  // where it was written; not part of its value
  bool operator==(const Setting& other) const { return key == other.key && value == other.value; }
};
// If a key is given twice, the later one counts.
using Settings = std::vector<Setting>;

enum class StageKind { generate, train, evaluate };
constexpr std::array all_stages{StageKind::generate, StageKind::train, StageKind::evaluate};
std::string_view name(StageKind stage);
std::optional<StageKind> stage_of(std::string_view name);

struct Stage {
  bool wanted = true;
  std::vector<std::string> command;       // empty: muster's own
  Settings settings;                      // of muster's own
  std::optional<schedule::GpuRequest> gpus;  // absent: the default for the stage
  std::optional<schedule::Duration> predicted, timeout, heartbeat;
  int retries = 0;
  std::string where;
  bool is_own() const { return wanted && command.empty(); }
};

struct Choice {
  std::string name;
  Settings settings;
  std::string where;
  bool enabled = true;  // of an algorithm: whether it is part of the experiment
};

enum class Keep { all, right };  // of the answers that generation gave

struct DataSet : Choice {
  std::optional<std::string> prompts;    // for muster generate
  std::optional<std::string> questions;  // for muster evaluate
  bool exact_match = false;
  Keep keep = Keep::all;
};

struct ExperimentSpec {
  std::string name;
  std::int64_t seed = 42;
  int rounds = 1;
  bool parallel = true;
  int priority = 0;
  std::string output = "experiments";
  spec::Device device = spec::Device::automatic;  // what muster's own stages compute on
  Settings settings;                              // of every own stage
  std::vector<Choice> algorithms, families;
  std::vector<DataSet> datasets;
  std::array<Stage, all_stages.size()> stages;  // by StageKind

  const Stage& stage(StageKind kind) const { return stages[static_cast<std::size_t>(kind)]; }
  Stage& stage(StageKind kind) { return stages[static_cast<std::size_t>(kind)]; }
  // Those that are wanted, in order.
  std::vector<StageKind> wanted_stages() const;
};

// One cell of the matrix in one round.
struct ExperimentJob {
  schedule::JobId id;
  const Choice* algorithm = nullptr;
  const Choice* family = nullptr;
  const DataSet* dataset = nullptr;
  int round = 1;
  std::vector<schedule::Job> stages;  // one for each wanted stage, ids {id}.{stage}
};

// The jobs on this many GPUs, in the order of expand; they point into the spec. With none, our own stages
// want none; a stage that wants more than there are is refused.
Result<std::vector<ExperimentJob>> jobs_of(const ExperimentSpec& spec, std::size_t gpus);

}  // namespace muster::experiment
