#include "service/train_resume.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "service/runs.hpp"

namespace muster::service {
namespace {

namespace fs = std::filesystem;

bool is_of(const fs::path& run, const std::string& identity) {
  const auto text = read_file(run / identity_file);
  return text && *text == identity;
}

Error other_run(const fs::path& run) {
  return {
      Error::Kind::bad_input,
      fmt::format("{} was started with another model, other data, or settings that change its numbers", run.string()),
      fmt::format("muster runs show {} tells its settings; go on with the same ones, or leave --resume out",
                  run.filename().string())};
}

}  // namespace

Result<void> find_run_to_resume(const spec::ExperimentSpec& experiment, TrainPlan& plan) {
  if (!experiment.resume) return {};
  const std::string& identity = plan.task().identity;
  if (*experiment.resume == "auto") {
    for (const RunSummary& run : list_runs(experiment.output))
      if (is_of(run.path, identity) && run.status != RunStatus::running &&
          !checkpoint::find_checkpoints(run.path / "checkpoints").empty()) {
        plan.resumes = run.path;
        return {};
      }
    plan.notes.push_back(
        fmt::format("no run of these settings in {} has a checkpoint: a new one begins", experiment.output));
    return {};
  }
  fs::path path = *experiment.resume;
  if (!fs::is_directory(path) && fs::is_directory(fs::path(experiment.output) / path))
    path = fs::path(experiment.output) / path;
  const bool is_checkpoint = path.parent_path().filename() == "checkpoints";
  const fs::path run = is_checkpoint ? path.parent_path().parent_path() : path;
  if (!fs::is_directory(path))
    return Error{Error::Kind::bad_input, fmt::format("--resume {}: there is no such folder", *experiment.resume),
                 "muster runs lists the runs; --resume auto takes the newest of these settings"};
  if (!is_of(run, identity)) return other_run(run);
  plan.resumes = run;
  if (is_checkpoint) plan.from = path;
  return {};
}

}  // namespace muster::service
