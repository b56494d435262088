// muster train, the controlling side: what is asked for becomes a plan that fits and data that is prepared, then one
// job of workers, started again from its last checkpoint where ranks are lost; all it tells goes into the run's folder.
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
#include "plan/plan.hpp"
#include "service/host.hpp"
#include "service/job_progress.hpp"
#include "service/train_text.hpp"
#include "service/worker_run.hpp"
#include "spec/resolve.hpp"
#include "store/run_folder.hpp"
#include "store/run_result.hpp"
#include "wire/train_event.hpp"
#include "wire/train_task.hpp"

namespace muster::service {

struct TrainWish {
  spec::ResolvedSpec settings;  // as settle_training_settings() left them
};

// What is not said where a job needs it: the built-in job where no model and no data are named, and what other settings
// stand for. Every problem at once.
Result<spec::ResolvedSpec> settle_training_settings(spec::ResolvedSpec given);

// Everything that is known before anything starts.
struct TrainPlan {
  plan::Question question;
  plan::Plan plan;
  WorkerJob job;
  std::string device;  // "2 CPU ranks", "4 GPUs (0,1,2,3) NVIDIA H200"
  data::PreparedData data;
  std::optional<std::filesystem::path> resumes;  // the run that is gone on with
  std::optional<std::filesystem::path> from;     // one checkpoint of it; absent: its newest good one
  bool finished = false;                         // the run has done all its steps: there is nothing to do
  std::string spec_text;                         // the settings, as spec.yaml has them
  std::vector<std::string> notes;                // what the user should know

  const wire::TrainTask& task() const { return std::get<wire::TrainTask>(job.assignment.task); }
};

// What a run keeps parameters, gradients and the optimizer's memory in: float32, or bfloat16 where that is asked for
// with mixed precision off.
spec::ElementType state_type(const spec::RunSpec& spec);

// Settings checked, devices chosen, model read, data prepared, memory counted; nothing is taken or started. A plan that
// does not fit is a TrainPlan with a refusal. progress: while data is prepared.
Result<TrainPlan> plan_training(Host& host, const TrainWish& wish, const data::OnPreparation& progress);
// Why it does not fit, and what of this command's options would make it.
Error refusal_of(const TrainPlan& plan);

struct TrainListener {
  std::function<void(const std::string&)> note;
  std::function<void(const TrainProgress&)> progress;  // after each step
  std::function<void(const JobProgress&)> work;        // what lasts between steps: reading, evaluating, writing
  std::function<void(const wire::Evaluated&)> evaluated;
  std::function<void(const std::string&)> report;  // several lines: the memory of the ranks
};

struct TrainSummary {
  int exit_code = 0;                            // 128 + signal where it was interrupted
  std::optional<std::filesystem::path> folder;  // absent: another host has it
  store::RunResult result;
  std::optional<std::int64_t> saved;         // the step of the newest checkpoint
  std::optional<wire::Evaluated> evaluated;  // the last one
};

// Runs a plan that fits. To be called while this process has one thread.
Result<TrainSummary> train(Host& host, const TrainWish& wish, const TrainPlan& plan, const TrainListener& listener);

}  // namespace muster::service
