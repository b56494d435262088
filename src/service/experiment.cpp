#include "service/experiment.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.hpp"
#include "experiment/experiment_file.hpp"
#include "host/described_gpus.hpp"
#include "job/worker_run.hpp"
#include "schedule/schedule_svg.hpp"
#include "service/queue_gpus.hpp"
#include "store/timestamp.hpp"
#include "system/file_lock.hpp"
#include "system/files.hpp"
#include "system/private_folder.hpp"
#include "system/process.hpp"

namespace muster::service {
namespace {

namespace fs = std::filesystem;
using experiment::ExperimentJob;
using experiment::ExperimentSpec;
using experiment::JobFolder;
using experiment::Progress;
using schedule::JobId;
using schedule::JobState;

constexpr std::size_t most_without_gpus = 2;  // jobs at a time on a machine without GPUs

std::string cell_of(const ExperimentJob& job) {
  return fmt::format("{}_{}_{}", job.algorithm->name, job.family->name, job.dataset->name);
}

// Chains of all submissions of an experiment begin with this.
std::string chain_prefix(const fs::path& folder) { return folder.string() + "#"; }

Result<void> compare(const ExperimentSpec& spec, const fs::path& folder) {
  const fs::path file = folder / "experiment.yaml";
  const auto text = read_file(file);
  if (!text) return text.error();
  const auto before = experiment::read_experiment(*text, file.string());
  if (!before) return before.error();
  const std::vector<std::string> differing = experiment::differences(*before, spec);
  if (differing.empty()) return {};
  return Error{Error::Kind::refused,
               fmt::format("{} is an experiment of other settings: {}", folder.string(), join(differing, ", ")),
               "another experiment.name, or the settings that experiment.yaml there has"};
}

// A job whose previous round has other weights than it began with cannot be continued.
Result<void> check_chain(const ExperimentPlan& plan, std::size_t number) {
  const ExperimentJob& job = plan.jobs[number];
  if (job.round == 1 || plan.progress[number].done == 0) return {};
  const JobFolder folder(plan.folder, job.id), before(plan.folder, plan.jobs[number - 1].id);
  const auto start = folder.read_start();
  const auto trained = before.read(experiment::StageKind::train);
  if (!start) return start.error();
  if (!trained) return trained.error();
  if (!*start || (*start)->from_round == 0 || !*trained || !(*trained)->done) return {};
  if ((*start)->sha256 == (*trained)->sha256) return {};
  return Error{Error::Kind::refused,
               fmt::format("{} began with weights {}, and round {} has {} now", job.id.text,
                           (*start)->sha256.value_or("unknown"), job.round - 1, (*trained)->sha256.value_or("none")),
               fmt::format("rm -r {} to do it again", folder.path().string())};
}

// How far each job is, as its files say.
Result<void> read_progress(ExperimentPlan& plan) {
  plan.progress.clear();
  for (std::size_t number = 0; number < plan.jobs.size(); ++number) {
    auto progress = experiment::progress_of(*plan.spec, JobFolder(plan.folder, plan.jobs[number].id));
    if (!progress) return progress.error();
    plan.progress.push_back(std::move(*progress));
    if (auto checked = check_chain(plan, number); !checked) return checked;
  }
  return {};
}

// Jobs that may not run at the same time share a lane, in their order.
class Lanes {
 public:
  explicit Lanes(const ExperimentPlan& plan) {
    if (!plan.spec->parallel)
      count_ = 1;
    else if (plan.gpus.empty())
      count_ = most_without_gpus;
    last_.resize(count_);
  }
  // The job that this one has to wait for, if any.
  std::optional<JobId>* of(const ExperimentJob& job) {
    if (count_ == 0) return nullptr;
    if (job.round == 1) ++cells_;
    return &last_[(cells_ - 1) % count_];
  }

 private:
  std::size_t count_ = 0;  // 0: as many as there are
  std::size_t cells_ = 0;
  std::vector<std::optional<JobId>> last_;
};

// GPUs on which somebody computes without a lease: their names in the queue, and what to say about each.
std::map<std::string, std::string> strangers_on(const host::HostView& view) {
  std::map<std::string, std::string> strangers;
  for (std::size_t number = 0; number < view.visible.size(); ++number) {
    const auto& uuid = view.visible[number].uuid;
    if (!uuid || view.holders.contains(uuid->text)) continue;
    if (const auto occupant = view.occupants.find(uuid->text); occupant != view.occupants.end())
      strangers[uuid->text] = fmt::format("GPU {} is in use by {}, without a lease", number, occupant->second);
  }
  return strangers;
}

// The jobs for the GPUs that nobody else uses. If those are too few for a stage, for all GPUs: the queue waits.
Result<void> choose_jobs(const host::HostView& view, ExperimentPlan& plan) {
  const auto strangers = strangers_on(view);
  std::vector<std::string> idle = plan.gpus;
  std::erase_if(idle, [&](const std::string& gpu) { return strangers.contains(gpu); });
  auto jobs = experiment::jobs_of(*plan.spec, idle.size());
  const bool are_enough = jobs && (!idle.empty() || plan.gpus.empty());
  if (!are_enough) jobs = experiment::jobs_of(*plan.spec, plan.gpus.size());
  if (!jobs) return jobs.error();
  plan.jobs = std::move(*jobs);
  for (std::size_t number = 0; number < plan.gpus.size(); ++number) {
    const auto stranger = strangers.find(plan.gpus[number]);
    if (stranger == strangers.end()) continue;
    plan.notes.push_back(stranger->second + (are_enough ? ": it is left out until it is free"
                                                        : ": the jobs need it, and wait until it is free"));
    if (are_enough) plan.left_out.push_back({schedule::GpuNumber{static_cast<int>(number)}, stranger->second});
  }
  return {};
}

}  // namespace

bool ExperimentPlan::complete() const { return stages_done() == stages(); }

std::size_t ExperimentPlan::stages_done() const {
  std::size_t done = 0;
  for (const Progress& one : progress) done += one.done;
  return done;
}

Result<ExperimentPlan> plan_experiment(const host::HostSources& sources, ExperimentSpec spec) {
  ExperimentPlan plan;
  QueueGpus gpus(sources);
  const auto listed = gpus.look();
  if (!listed) return listed.error();
  for (const queue::GpuListing::Gpu& gpu : listed->gpus)
    if (!gpu.sickness) plan.gpus.push_back(gpu.name);
  const auto view = host::Host(sources).look(gpu::Detail::memory);
  if (!view) return view.error();
  plan.described_gpus = host::file_of_described_gpus(sources, *view);
  plan.spec = std::make_unique<const ExperimentSpec>(std::move(spec));
  std::error_code failure;
  plan.folder = fs::absolute(fs::path(plan.spec->output) / plan.spec->name, failure);
  if (!failure) plan.folder = fs::weakly_canonical(plan.folder, failure);
  if (failure)
    return Error{Error::Kind::bad_input, fmt::format("output is {}: {}", plan.spec->output, failure.message()),
                 "name a folder"};
  plan.exists = fs::exists(plan.folder / "experiment.yaml", failure);
  if (plan.exists)
    if (auto same = compare(*plan.spec, plan.folder); !same) return same.error();
  if (auto chosen = choose_jobs(*view, plan); !chosen) return chosen.error();
  if (auto read = read_progress(plan); !read) return read.error();
  return plan;
}

std::vector<schedule::Job> stages_to_submit(const ExperimentPlan& plan, const StageJobs& open) {
  const auto now_called = [&](const JobId& stage) {
    const auto found = open.find(stage.text);
    return found == open.end() ? stage : found->second;
  };
  std::vector<schedule::Job> left;
  Lanes lanes(plan);
  for (std::size_t number = 0; number < plan.jobs.size(); ++number) {
    const ExperimentJob& job = plan.jobs[number];
    std::optional<JobId>* lane = lanes.of(job);
    const std::size_t first = plan.progress[number].done;
    if (first == job.stages.size()) continue;
    for (std::size_t i = first; i < job.stages.size(); ++i) {
      if (open.contains(job.stages[i].id.text)) continue;
      schedule::Job stage = job.stages[i];
      stage.label = stage.id.text;
      stage.kind = fmt::format("{}:{}.{}", plan.spec->name, cell_of(job), stage.kind);
      stage.after_ok.clear();
      if (i > first)
        stage.after_ok.push_back(now_called(job.stages[i - 1].id));
      else if (job.round > 1 && plan.progress[number - 1].done < plan.jobs[number - 1].stages.size())
        stage.after_ok.push_back(now_called(plan.jobs[number - 1].stages.back().id));
      if (i == first && lane != nullptr && *lane && !std::ranges::count(stage.after_ok, **lane))
        stage.after.push_back(**lane);
      left.push_back(std::move(stage));
    }
    if (lane != nullptr) *lane = now_called(job.stages.back().id);
  }
  return left;
}

schedule::Simulation simulate(const ExperimentPlan& plan) {
  schedule::Simulation simulation(schedule::Scheduler{}, schedule::as_predicted(usual_length));
  for (const std::string& gpu : plan.gpus) simulation.at(schedule::Time{}, schedule::GpuFound{gpu});
  for (const schedule::GpuHeld& held : plan.left_out) simulation.at(schedule::Time{}, held);
  auto jobs = stages_to_submit(plan, {});
  if (!jobs.empty()) simulation.at(schedule::Time{}, schedule::Submitted{std::move(jobs)});
  simulation.run();
  return simulation;
}

std::string schedule_json(const schedule::Simulation& simulation) {
  using nlohmann::ordered_json;
  const auto& jobs = simulation.scheduler().jobs();
  ordered_json out{{"gpus", simulation.scheduler().gpus().size()}, {"stages", ordered_json::array()}};
  for (const schedule::JobRun& run : simulation.runs()) {
    const schedule::JobRecord& record = jobs.at(run.job);
    ordered_json line{{"stage", record.job.id.text}, {"gpus", ordered_json::array()}, {"after", ordered_json::array()}};
    for (const schedule::GpuNumber gpu : run.gpus) line["gpus"].push_back(number(gpu));
    for (const schedule::Dependency& other : record.dependencies)
      line["after"].push_back(jobs.at(other.job).job.id.text);
    line["start_seconds"] = static_cast<double>(run.start.time_since_epoch().count()) / 1000;
    if (run.end) line["end_seconds"] = static_cast<double>(run.end->time_since_epoch().count()) / 1000;
    out["stages"].push_back(std::move(line));
  }
  return out.dump(2) + "\n";
}

namespace {

Result<void> prepare_folder(const ExperimentPlan& plan) {
  // It holds the commands of stages.
  if (const std::error_code failure = make_private_folder(plan.folder))
    return Error{Error::Kind::failed, fmt::format("cannot make {}: {}", plan.folder.string(), failure.message()),
                 "output=FOLDER names another place"};
  if (auto written = write_file_atomically(plan.folder / "experiment.yaml", experiment::experiment_text(*plan.spec));
      !written)
    return written;
  const schedule::Simulation simulation = simulate(plan);
  if (simulation.runs().empty()) return {};
  return write_file_atomically(plan.folder / "schedule.svg",
                               schedule::schedule_svg(plan.spec->name, simulation.scheduler(), simulation.runs()));
}

Result<StageJobs> open_stages(Queue& queue, const fs::path& folder) {
  const auto open = queue.open_jobs_of_chains(chain_prefix(folder));
  if (!open) return open.error();
  StageJobs stages;
  for (const schedule::Job& job : *open) stages[job.label] = job.id;
  return stages;
}

}  // namespace

Result<Submission> submit_experiment(Queue& queue, ExperimentPlan& plan) {
  for (const experiment::StageKind kind : plan.spec->wanted_stages())
    if (plan.spec->stage(kind).is_own())
      if (const auto worker = job::find_worker(); !worker) return worker.error();
  if (auto prepared = prepare_folder(plan); !prepared) return prepared.error();
  // Two processes that submit the same experiment at the same time do so one after the other.
  const auto lock = lock_file(plan.folder / "lock");
  if (!lock) return lock.error();
  auto open = open_stages(queue, plan.folder);
  if (!open) return open.error();
  // After the queue: a stage that ends in between is found in one of them, or else it would be queued again.
  if (auto read = read_progress(plan); !read) return read.error();
  std::vector<schedule::Job> left = stages_to_submit(plan, *open);
  Submission submission{std::move(*open), 0};
  submission.taken_over = submission.stages.size();
  if (left.empty()) return submission;
  const std::string token = fmt::format("{}{}-{}:", chain_prefix(plan.folder),
                                        store::timestamp(std::chrono::system_clock::now()), ::getpid());
  const auto program = own_program();
  if (!program) return program.error();
  std::vector<queue::QueuedJob> batch;
  std::vector<std::string> names;
  for (schedule::Job& stage : left) {
    const std::string id = stage.id.text;
    const auto dot = id.rfind('.');
    names.push_back(id);
    stage.chain->name = token + stage.chain->name;
    batch.push_back(
        {std::move(stage),
         {program->string(), "run", "--job", id.substr(0, dot), "--stage", id.substr(dot + 1), plan.folder.string()}});
  }
  const auto ids = queue.submit(std::move(batch));
  if (!ids) return ids.error();
  for (std::size_t i = 0; i < names.size(); ++i) submission.stages[names[i]] = (*ids)[i];
  return submission;
}

namespace {

// settled: what has ended, which the scheduler may no longer know.
ExperimentCounts count(const schedule::Scheduler& scheduler, const ExperimentPlan& plan, const StageJobs& stages,
                       const std::map<std::string, JobState>& settled) {
  ExperimentCounts counts;
  counts.done = plan.stages_done();
  for (const auto& [stage, id] : stages) {
    const auto job = scheduler.jobs().find(id);
    const auto end = settled.find(stage);
    const JobState state = end != settled.end() ? end->second
                           : job                ? scheduler.jobs().at(*job).state
                                                : JobState::waiting;
    if (state == JobState::succeeded)
      ++counts.done;
    else if (is_settled(state))
      ++(state == JobState::failed ? counts.failed : counts.skipped);
    else if (has_gpus(state))
      counts.at_work.push_back(stage);
    else
      ++counts.waiting;
  }
  counts.running = counts.at_work.size();
  return counts;
}

}  // namespace

Result<ExperimentEnd> follow_experiment(Queue& queue, const ExperimentPlan& plan, const StageJobs& stages,
                                        const ExperimentListener& listener) {
  ExperimentEnd end;
  bool has_news = true;
  std::map<std::string, JobState> ends;
  std::map<JobId, std::string> names;
  JobIds ids;
  for (const auto& [stage, id] : stages) {
    names.emplace(id, stage);
    ids.push_back(id);
  }
  // The queue refers to jobs by their numbers.
  const auto spoken_reason = [&](const schedule::JobRecord& record) {
    const auto blank = std::min(record.reason.find(' '), record.reason.size());
    const auto other = names.find({record.reason.substr(0, blank)});
    return other == names.end() ? record.reason : other->second + record.reason.substr(blank);
  };
  const auto settled = [&](const schedule::JobRecord& record) {
    has_news = true;
    const std::string& stage = names.at(record.job.id);
    ends[stage] = record.state;
    const std::string reason = spoken_reason(record);
    listener.settled(stage, record, reason);
    const auto dot = stage.rfind('.');
    if (record.state == JobState::failed || record.state == JobState::cancelled)
      end.reasons.insert_or_assign(stage.substr(0, dot), fmt::format("{}: {}", stage.substr(dot + 1), reason));
    else if (record.state == JobState::skipped)
      end.reasons.try_emplace(stage.substr(0, dot), fmt::format("{} skipped: {}", stage.substr(dot + 1), reason));
  };
  constexpr int looks_between_counts = 10;
  int looks = 0;
  const auto watch = [&](const schedule::Scheduler& scheduler) {
    if (std::exchange(has_news, false) || ++looks % looks_between_counts == 0)
      listener.look(count(scheduler, plan, stages, ends));
    return !listener.interrupted();
  };
  if (auto waited = queue.wait(ids, settled, watch); !waited) return waited.error();
  if (!listener.interrupted()) return end;
  end.interrupted = true;
  listener.stopping();
  // Refused: the only one has ended in the meantime.
  if (auto stopped = queue.stop(ids); !stopped && stopped.error().kind != Error::Kind::refused) return stopped.error();
  if (auto waited = queue.wait(ids, [](const schedule::JobRecord&) {}); !waited) return waited.error();
  return end;
}

Result<std::vector<experiment::JobOutcome>> gather_results(const ExperimentPlan& plan) {
  const auto lock = lock_file(plan.folder / "results.lock");
  if (!lock) return lock.error();
  auto all = experiment::outcomes(*plan.spec, plan.jobs, plan.folder);
  if (!all) return all.error();
  if (auto written = experiment::write_results(*all, plan.folder); !written) return written.error();
  return all;
}

}  // namespace muster::service
