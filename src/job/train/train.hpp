// muster train, the controlling side: the request becomes a plan that fits and data that is prepared, then one
// job of workers, restarted from its last checkpoint where ranks are lost; all it reports goes into the run's folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "data/prepare_data.hpp"
#include "host/device_choice.hpp"
#include "host/host.hpp"
#include "job/job_progress.hpp"
#include "job/train/disk_need.hpp"
#include "job/train/round_plan.hpp"
#include "job/train/train_text.hpp"
#include "job/job_plan.hpp"
#include "plan/plan.hpp"
#include "spec/resolve.hpp"
#include "store/run_folder.hpp"
#include "store/run_result.hpp"
#include "wire/train_event.hpp"
#include "wire/train_task.hpp"

namespace muster::job {

struct TrainRequest {
  spec::ResolvedSpec settings;  // as settle_training_settings() left them
  host::Purpose purpose = host::Purpose::compute;
};

// Fills in what was not given: the built-in job where neither model nor data is named, and what other settings imply.
// Reports every problem at once.
Result<spec::ResolvedSpec> settle_training_settings(spec::ResolvedSpec given);

// Everything that is known before anything starts.
struct TrainPlan : JobPlan {
  data::PreparedData data;
  std::optional<RoundPlan> rounds;               // absent: nothing is sampled
  std::optional<DiskNeed> disk;                  // absent: another host has the run's folder
  std::optional<std::filesystem::path> resumes;  // the run that is resumed
  std::optional<std::filesystem::path> from;     // one checkpoint of it; absent: its newest good one
  bool finished = false;                         // the run has done all its steps: nothing is left to do
  std::string spec_text;                         // the settings, as spec.yaml has them

  const wire::TrainTask& task() const { return std::get<wire::TrainTask>(job.assignment.task); }
  bool fits() const { return plan.fits() && (!disk || disk->fits()); }
};

// The type that a run keeps parameters, gradients and the optimizer's memory in: float32, or bfloat16 if requested
// with mixed precision off.
spec::ElementType state_type(const spec::RunSpec& spec);

// Settings checked, devices chosen, model read, data prepared, memory counted; nothing is taken or started. A plan that
// does not fit is a TrainPlan with a refusal. progress: while data is prepared.
Result<TrainPlan> plan_training(host::Host& host, const TrainRequest& request, const data::OnPreparation& progress);
// Why it does not fit, and which of this command's options would help.
Error refusal_of(const TrainPlan& plan);
// "muster train … --strategy fsdp": the command of a remedy.
std::string training_command(const std::vector<plan::SettingChange>& changes);
// The plan of memory and of the disk, for people and for programs.
std::string train_plan_text(const TrainPlan& plan, bool colour);
std::string train_plan_json(const TrainPlan& plan);

struct TrainListener {
  std::function<void(const std::string&)> note;
  std::function<void(const TrainProgress&)> progress;  // after each step
  std::function<void(const JobProgress&)> work;        // longer work between steps: reading, evaluating, writing
  std::function<void(const wire::Evaluated&)> evaluated;
  std::function<void(const std::string&)> report;  // several lines: the memory of the ranks
};

struct TrainSummary {
  int exit_code = 0;                            // 128 + signal where it was interrupted
  std::optional<std::filesystem::path> folder;  // absent: another host has it
  store::RunResult result;
  std::optional<std::int64_t> saved;         // the step of the newest checkpoint
  std::optional<wire::Evaluated> evaluated;  // the last one
  bool was_complete = false;  // another process finished the run before this one could take it
};

// Runs a plan that fits. To be called while this process has one thread.
Result<TrainSummary> train(host::Host& host, const TrainRequest& request, const TrainPlan& plan, const TrainListener& listener);

}  // namespace muster::job
