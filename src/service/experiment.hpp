// muster run: an experiment becomes jobs of the user's queue, and what they wrote becomes a table.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "experiment/experiment_spec.hpp"
#include "experiment/job_folder.hpp"
#include "experiment/results.hpp"
#include "host/host.hpp"
#include "schedule/simulation.hpp"
#include "service/queue.hpp"

namespace muster::service {

// An experiment, its folder, and how far it has got.
struct ExperimentPlan {
  std::unique_ptr<const experiment::ExperimentSpec> spec;  // the jobs point into it
  std::filesystem::path folder;                            // absolute
  bool exists = false;                                     // the folder is there, with settings that agree
  std::vector<std::string> gpus;                           // that the queue gives out
  std::vector<schedule::GpuHeld> left_out;                 // of these, by their places: somebody else uses them
  std::vector<std::string> notes;                          // who that is
  std::optional<std::filesystem::path> described_gpus;     // the file that describes them, if only it has them
  std::vector<experiment::ExperimentJob> jobs;
  std::vector<experiment::Progress> progress;  // of each job, according to its files

  bool complete() const;
  std::size_t stages_done() const;
  std::size_t stages() const { return jobs.size() * spec->wanted_stages().size(); }
};

// Looks at the GPUs and at the folder; writes nothing. A folder with other settings is refused with the differences.
Result<ExperimentPlan> plan_experiment(const host::HostSources& sources, experiment::ExperimentSpec spec);

// Jobs of the queue by the ids that stages have in an experiment: "sft_small_sums_r1.train".
using StageJobs = std::map<std::string, schedule::JobId>;

// The stages that are neither done nor open, under their ids in the experiment, in an order in which they can be
// submitted. open: jobs of the queue that others are to wait for.
std::vector<schedule::Job> stages_to_submit(const ExperimentPlan& plan, const StageJobs& open);

// What is left, as it would run on an otherwise idle machine. A stage of unknown length is drawn as
// if it took usual_length.
constexpr schedule::Duration usual_length = std::chrono::minutes(10);
schedule::Simulation simulate(const ExperimentPlan& plan);
std::string schedule_json(const schedule::Simulation& simulation);

struct Submission {
  StageJobs stages;            // everything that is queued or running now
  std::size_t taken_over = 0;  // from an earlier call, still open: some may turn out to have been killed
};
// Creates the folder and queues what is left, and brings the plan's progress up to date for that.
Result<Submission> submit_experiment(Queue& queue, ExperimentPlan& plan);

struct ExperimentCounts {
  std::size_t done = 0, failed = 0, skipped = 0, running = 0, waiting = 0;  // stages of this experiment
  std::vector<std::string> at_work;                                         // ids of the stages that run
};
struct ExperimentListener {
  std::function<void(const std::string& stage, const schedule::JobRecord&, const std::string& reason)> settled;
  std::function<void(const ExperimentCounts&)> look;
  std::function<bool()> interrupted;  // asked often; true: the jobs are stopped
  std::function<void()> stopping;     // called when they are about to be
};
struct ExperimentEnd {
  bool interrupted = false;
  std::map<std::string, std::string> reasons;  // of jobs ("sft_small_sums_r1") that failed, were skipped or stopped
};
// Until all of them are settled.
Result<ExperimentEnd> follow_experiment(Queue& queue, const ExperimentPlan& plan, const StageJobs& stages,
                                        const ExperimentListener& listener);

// The state of every job now; results.jsonl, results.csv and results.txt are brought up to date.
Result<std::vector<experiment::JobOutcome>> gather_results(const ExperimentPlan& plan);

// One stage, as the queue runs it: checks what the job begins with, runs the command, and records how it ended. The
// command's exit status.
Result<int> run_stage(const std::filesystem::path& folder, const std::string& job, const std::string& stage);

}  // namespace muster::service
