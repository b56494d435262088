#include "job/train/train_resume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/training_checkpoint.hpp"
#include "runs/run_settings.hpp"
#include "runs/runs.hpp"
#include "system/allotted_cores.hpp"
#include "system/files.hpp"

namespace muster::job {
namespace {

namespace fs = std::filesystem;

bool is_of(const fs::path& run, const std::string& identity) {
  const auto text = read_file(run / identity_file);
  return text && *text == identity;
}

bool is_called(const fs::path& run, std::string_view name) {
  const auto record = store::read_record(run);
  return record && record->name == name;
}

// Settings that may differ between a run and the command that resumes it.
bool may_differ(std::string_view key) {
  constexpr std::array groups{"experiment.",    "distributed.",         "system.",          "training.save_",
                              "training.eval_", "training.dataloader_", "training.logging_"};
  constexpr std::array keys{"training.max_steps",
                            "training.num_epochs",
                            "training.micro_batch_size",
                            "training.gradient_accumulation_steps",
                            "training.gradient_checkpointing",
                            "data.eval_path"};
  if (key == "experiment.seed") return false;
  return std::ranges::any_of(groups, [&](std::string_view group) { return key.starts_with(group); }) ||
         std::ranges::find(keys, key) != keys.end();
}

// "training.learning_rate was 0.002 and is 0.001", for every setting that differs now.
std::string differences(const fs::path& run, const TrainPlan& plan) {
  const spec::Schema schema;
  const auto before = runs::read_run_settings(schema, run / "spec.yaml");
  const auto now = runs::parse_run_settings(schema, plan.spec_text, "the settings");
  std::vector<std::string> words;
  if (before && now)
    for (const runs::SettingDifference& one : runs::setting_differences(schema, *before, *now))
      if (!may_differ(one.key))
        words.push_back(
            fmt::format("{} was {} and is {}", one.key, one.first.value_or("unset"), one.second.value_or("unset")));
  if (!words.empty()) return join(words, ", ");
  return fmt::format(
      "its settings are the same, so that its model or data has changed since, or the batch of a step follows from the "
      "number of ranks (this one is of {} sequences)",
      plan.task().batch_size);
}

Error other_run(const fs::path& run, const TrainPlan& plan) {
  return {
      Error::Kind::bad_input,
      fmt::format("{} cannot be resumed, because its numbers would change: {}", run.string(), differences(run, plan)),
      "use the settings that it was started with, or leave --resume out"};
}

Error too_far(const fs::path& checkpoint, std::int64_t step, std::int64_t steps) {
  return {Error::Kind::bad_input,
          fmt::format("{} is of step {}, and training.max_steps is {}", checkpoint.string(), step, steps),
          "ask for more steps, or resume from an earlier checkpoint of the run"};
}

Result<void> take(const fs::path& run, TrainPlan& plan) {
  plan.resumes = run;
  const auto complete = is_complete(run, plan);
  if (!complete) return complete.error();
  plan.finished = *complete;
  return {};
}

// All of it is checked before anything in the run changes.
Result<void> take_checkpoint(const fs::path& path, TrainPlan& plan) {
  const auto opened = checkpoint::TrainingCheckpoint::open(path);
  if (!opened) return opened.error();
  if (auto whole = opened->verify(allotted_cores()); !whole) return whole.error();
  if (opened->state().step > plan.task().steps) return too_far(path, opened->state().step, plan.task().steps);
  plan.resumes = path.parent_path().parent_path();
  plan.from = path;
  return {};
}

}  // namespace

Result<bool> is_complete(const fs::path& run, const TrainPlan& plan) {
  const std::int64_t steps = plan.task().steps;
  const auto checkpoints = checkpoint::find_checkpoints(run / "checkpoints");
  if (!checkpoints.empty() && checkpoints.front().step > steps)
    return too_far(checkpoints.front().path, checkpoints.front().step, steps);
  const auto folder = store::RunFolder::open(run);
  if (!folder) return folder.error();
  const auto result = folder->read_result();
  if (!result || !*result || (*result)->status != store::Ending::done) return false;
  const bool has_model = plan.task().save_at_end == spec::FinalSave::nothing || fs::is_directory(folder->model());
  return (*result)->steps == steps && has_model;
}

Result<void> find_run_to_resume(const spec::ResolvedSpec& settings, TrainPlan& plan) {
  const spec::ExperimentSpec& experiment = settings.spec.experiment;
  if (!experiment.resume) return {};
  const std::string& identity = plan.task().identity;
  if (*experiment.resume == "auto") {
    const bool named = settings.origins.contains("experiment.name") && experiment.name;
    for (const runs::RunSummary& run : runs::list_runs(experiment.output))
      if (is_of(run.path, identity) && (!named || is_called(run.path, *experiment.name))) return take(run.path, plan);
    plan.notes.push_back(fmt::format("no run{} in {} has these settings: a new one begins",
                                     named ? fmt::format(" called {}", *experiment.name) : "", experiment.output));
    return {};
  }
  fs::path path = fs::path(*experiment.resume).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "folder/"
  if (!fs::is_directory(path) && fs::is_directory(fs::path(experiment.output) / path))
    path = fs::path(experiment.output) / path;
  const bool is_checkpoint = path.parent_path().filename() == "checkpoints";
  const fs::path run = is_checkpoint ? path.parent_path().parent_path() : path;
  if (!fs::is_directory(path))
    return Error{Error::Kind::bad_input, fmt::format("--resume {}: there is no such folder", *experiment.resume),
                 "muster runs lists the runs; --resume auto takes the newest one with these settings"};
  if (!fs::exists(run / identity_file))
    return Error{Error::Kind::bad_input, fmt::format("--resume {}: this is not a run of muster train", *experiment.resume),
                 "muster runs lists the runs; --resume auto takes the newest one with these settings"};
  if (!is_of(run, identity)) return other_run(run, plan);
  if (!is_checkpoint) return take(run, plan);
  return take_checkpoint(path, plan);
}

}  // namespace muster::job
