#include "job/train/train.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/training_checkpoint.hpp"
#include "job/train/train_job.hpp"
#include "job/train/train_resume.hpp"
#include "store/loss_plot.hpp"
#include "store/metrics_table.hpp"
#include "system/allotted_cores.hpp"
#include "system/files.hpp"
#include "system/host_name.hpp"

namespace muster::job {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Removes what killed processes left half-written. To be called when no rank is left.
void tidy(const store::RunFolder& folder) {
  checkpoint::remove_leftovers(folder.checkpoints());
  std::error_code ignored;
  std::vector<fs::path> unwanted;
  for (const auto& entry : fs::directory_iterator(folder.path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find(".part-") != std::string::npos || name.starts_with(".model.")) unwanted.push_back(entry.path());
  }
  for (const char* part : {"logs", "rollouts"})
    for (const auto& entry : fs::recursive_directory_iterator(folder.path() / part, ignored))
      if (entry.path().filename().string().find(".part-") != std::string::npos) unwanted.push_back(entry.path());
  for (const fs::path& path : unwanted) fs::remove_all(path, ignored);
}

// One run, over all its attempts.
class Run {
 public:
  Run(host::Host& host, const TrainRequest& request, const TrainPlan& plan, const TrainListener& listener)
      : host_(host), request_(request), plan_(plan), listener_(listener), began_(Clock::now()) {}

  Result<TrainSummary> carry_out() {
    if (!leads()) return follow();
    if (auto opened = open_folder(); !opened) return opened.error();
    if (complete_) return *complete_;
    auto code = attempt_until_done();
    tidy(*folder_);
    store::RunResult result = result_of(code);
    // The result is written last: a run that has one is complete.
    draw();
    const auto written = folder_->write_result(result);
    if (!code) return with_a_way_on(code.error());
    if (!written) return written.error();
    TrainSummary summary;
    summary.exit_code = *code;
    summary.folder = folder_->path();
    summary.result = std::move(result);
    summary.saved = record_.saved;
    summary.evaluated = record_.evaluated;
    return summary;
  }

 private:
  // Host 0 has the run's folder; the others only compute.
  bool leads() const { return !plan_.job.hosts || plan_.job.hosts->number == 0; }
  Result<TrainSummary> follow();
  struct Beginning {
    std::int64_t step = 0;                            // done before
    std::vector<checkpoint::StepNumbers> last_steps;  // of them
  };

  Result<void> open_folder();
  Result<void> resume_folder();
  Result<void> write_start();
  Result<int> attempt_until_done();
  Result<Beginning> choose_checkpoint(wire::TrainTask& task);
  Result<Beginning> begin_at(const checkpoint::TrainingCheckpoint& found, wire::TrainTask& task);
  Result<store::RunRecorder> open_recorder(const Beginning& beginning);
  Result<int> attempt();
  Error with_a_way_on(Error error) const {
    if (!record_.saved && error.kind != Error::Kind::failed) return error;
    const std::string way = record_.saved ? fmt::format("the same command with --resume {} continues after step {}",
                                                        fs::proximate(folder_->path()).string(), *record_.saved)
                                          : "there was no checkpoint yet to resume from (training.save_steps)";
    error.remedy = error.remedy.empty() ? way : error.remedy + "; " + way;
    return error;
  }
  // A line for the user, which also goes into events.jsonl.
  void say(const std::string& text) {
    listener_.note(text);
    said_.push_back(text);
  }
  Result<void> write_notes(store::RunRecorder& recorder);
  Result<void> write_end(store::RunRecorder& recorder, const Result<int>& code);
  store::RunResult result_of(const Result<int>& code) const;
  std::vector<DeviceUse> look_at_devices() const;
  void draw() const;
  double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

  host::Host& host_;
  const TrainRequest& request_;
  const TrainPlan& plan_;
  const TrainListener& listener_;
  Clock::time_point began_;
  std::optional<store::RunFolder> folder_;
  std::optional<store::RunLock> lock_;
  bool first_ = true;  // the folder is new, and nothing was tried in it
  int attempts_ = 0;
  std::int64_t restarts_ = 0;
  double earlier_seconds_ = 0;
  std::optional<TrainSummary> complete_;  // what was found where nothing is left to do
  TrainRecord record_;
  std::vector<std::string> said_;  // but not yet in events.jsonl
};

// The plan looked at the run when another process may still have been working on it; its state now is what counts.
Result<void> Run::resume_folder() {
  const auto opened = store::RunFolder::open(*plan_.resumes);
  if (!opened) return opened.error();
  auto held = opened->hold();
  if (!held) return held.error();
  folder_ = std::move(held->folder);
  lock_.emplace(std::move(held->lock));
  first_ = false;
  // From a named checkpoint, steps are done again.
  const auto complete = plan_.from ? Result<bool>(false) : is_complete(folder_->path(), plan_);
  if (!complete) return complete.error();
  const auto before = folder_->read_result();
  const bool has_result = before && *before;
  if (*complete && has_result) {
    complete_.emplace();
    complete_->folder = folder_->path();
    complete_->result = **before;
    complete_->was_complete = true;
    return {};
  }
  earlier_seconds_ = has_result ? (*before)->seconds : folder_->seconds_worked({}).value_or(0);
  return folder_->remove_result();
}

// Where and with what this command works on the run.
Result<void> Run::write_start() {
  store::RunStart start;
  start.time = std::chrono::system_clock::now();
  start.host = host_name();
  start.muster = MUSTER_VERSION;
  start.ranks = plan_.job.ranks;
  start.seconds_before = earlier_seconds_;
  for (const plan::RankPlan& rank : plan_.plan.ranks) {
    if (!plan_.job.selection || !rank.gpu || rank.host != 0) continue;
    const store::RunGpu gpu{rank.gpu->number, rank.gpu->name, rank.gpu->uuid};
    if (std::ranges::find(start.gpus, gpu) == start.gpus.end()) start.gpus.push_back(gpu);
  }
  return folder_->write_start(start);
}

Result<void> Run::open_folder() {
  if (plan_.resumes) {
    if (auto resumed = resume_folder(); !resumed || complete_) return resumed;
  } else {
    // With its identity, so that --resume finds a run that was killed in its first moments.
    const std::array files{store::FirstFile{identity_file, plan_.task().identity}};
    auto held = store::RunFolder::create(request_.settings.spec.experiment.output,
                                         request_.settings.spec.experiment.name.value_or("train"),
                                         std::chrono::system_clock::now(), files);
    if (!held) return held.error();
    folder_ = std::move(held->folder);
    lock_.emplace(std::move(held->lock));
  }
  if (auto written = write_start(); !written) return written;
  if (auto written = folder_->write_spec(plan_.spec_text); !written) return written;
  return folder_->write_plan(train_plan_json(plan_));
}

// The newest that is intact. Damaged ones are reported with the reason.
Result<Run::Beginning> Run::choose_checkpoint(wire::TrainTask& task) {
  task.resume.reset();
  if (first_) return Beginning{};
  tidy(*folder_);
  if (plan_.from && attempts_ == 0) {
    const auto opened = checkpoint::TrainingCheckpoint::open(*plan_.from);
    if (!opened) return opened.error();
    return begin_at(*opened, task);
  }
  const checkpoint::NewestGood found = checkpoint::newest_good(folder_->checkpoints(), allotted_cores());
  for (const checkpoint::PassedOver& bad : found.passed_over)
    say(fmt::format("{} is damaged and is skipped: {}", bad.path.filename().string(), bad.reason.what));
  if (found.checkpoint) return begin_at(*found.checkpoint, task);
  if (auto aside = checkpoint::set_aside_newer(folder_->checkpoints(), 0); !aside) return aside.error();
  say("there is no checkpoint to resume from: the run starts from the beginning");
  return Beginning{};
}

Result<Run::Beginning> Run::begin_at(const checkpoint::TrainingCheckpoint& found, wire::TrainTask& task) {
  const checkpoint::TrainingState& state = found.state();
  if (auto aside = checkpoint::set_aside_newer(folder_->checkpoints(), state.step); !aside) return aside.error();
  task.resume = found.path().string();
  record_.saved = state.step;
  if (!state.last_steps.empty()) record_.loss = state.last_steps.back().loss;
  say(fmt::format("resuming after step {}", state.step));
  return Beginning{state.step, state.last_steps};
}

// Note [Steps that were not written]
// Ranks save by themselves; this process may be killed when a checkpoint is complete, and the rows of its last steps
// are still on their way to metrics.csv. So a checkpoint holds the numbers of the steps before it, and rows that are
// missing come from there.
Result<store::RunRecorder> Run::open_recorder(const Beginning& beginning) {
  const auto now = std::chrono::system_clock::now();
  auto recorder = store::RunRecorder::begin(*folder_, train_columns(plan_.task()), now,
                                            beginning.step);
  if (!recorder) return recorder;
  recorder->wait_when_full({plan_.task().disk_patience, listener_.note});
  for (const checkpoint::StepNumbers& step : beginning.last_steps) {
    const std::int64_t last = recorder->last_step().value_or(0);
    if (step.step > last + 1)
      say(fmt::format("the steps from {} to {} are not in metrics.csv", last + 1, step.step - 1));
    Result<void> added;
    if (step.step > last) added = recorder->add_step(now, step.step, measured_of(step));
    if (added && step.step >= last) added = recorder->add_to_step(now, step.step, evaluation_of(step));
    if (!added) return added.error();
  }
  const nlohmann::ordered_json fields{{"attempt", attempts_ + 1},
                                      {"host", host_name()},
                                      {"ranks", plan_.job.ranks},
                                      {"after_step", beginning.step},
                                      {"steps", plan_.task().steps}};
  if (auto written = write_notes(*recorder); !written) return written.error();
  if (auto added = recorder->add_event(now, "attempt", {}, fields); !added) return added.error();
  return recorder;
}

Result<void> Run::write_notes(store::RunRecorder& recorder) {
  for (const std::string& text : std::exchange(said_, {}))
    if (auto added = recorder.add_event(std::chrono::system_clock::now(), "note", {}, {{"text", text}}); !added)
      return added;
  return {};
}

Result<void> Run::write_end(store::RunRecorder& recorder, const Result<int>& code) {
  if (auto written = write_notes(recorder); !written) return written;
  const auto now = std::chrono::system_clock::now();
  if (!code)
    return recorder.add_event(now, "attempt_failed", {}, {{"attempt", attempts_}, {"reason", code.error().what}});
  if (*code != 0) return recorder.add_event(now, "interrupted", {}, {{"signal", *code - 128}});
  return {};
}

Result<TrainSummary> Run::follow() {
  const auto code = attempt_until_done();
  if (!code) return code.error();
  TrainSummary summary;
  summary.exit_code = *code;
  return summary;
}

Result<int> Run::attempt() {
  WorkerJob job = plan_.job;
  if (!leads()) {
    WorkerListener nobody;
    return run_workers(host_, job, nobody, listener_.note);
  }
  auto& task = std::get<wire::TrainTask>(job.assignment.task);
  task.run_folder = folder_->path().string();
  task.attempt = fmt::format("{}-{}", ::getpid(), attempts_);
  if (record_.shrunk) {
    task.micro_batch = record_.shrunk->micro_batch;
    task.recompute = record_.shrunk->recompute;
  }
  const auto beginning = choose_checkpoint(task);
  if (!beginning) return beginning.error();
  auto recorder = open_recorder(*beginning);
  if (!recorder) {
    record_.unwritable = true;
    return recorder.error();
  }
  first_ = false;
  record_.step = beginning->step;
  job.logs = folder_->logs();
  job.inherited = {lock_->descriptor()};
  TrainJob listening(plan_, *recorder, record_, listener_, [this] { return look_at_devices(); });
  ++attempts_;
  auto code = run_workers(host_, job, listening, [this](const std::string& text) { say(text); });
  // A signal that came when everything was done came too late.
  if (code && *code != 0 && record_.step == task.steps && listening.ranks_done() == job.ranks) code = 0;
  if (auto written = write_end(*recorder, code); !written && code) return written.error();
  return code;
}

// Called while the ranks run, on the thread that listens to them: it looks at the GPUs itself.
std::vector<DeviceUse> Run::look_at_devices() const {
  std::vector<DeviceUse> devices;
  if (!plan_.job.selection) return devices;
  const auto view = host::Host(host_.sources()).look();
  if (!view) return devices;
  for (std::size_t i = 0; i < view->visible.size(); ++i) {
    const gpu::GpuReading& reading = view->gpu_of(view->visible[i]).reading;
    DeviceUse use{static_cast<int>(i), std::nullopt, reading.memory_used};
    if (reading.utilization) use.utilization = *reading.utilization / 100.0;
    devices.push_back(use);
  }
  return devices;
}

Result<int> Run::attempt_until_done() {
  while (true) {
    const std::int64_t before = record_.step;
    auto code = attempt();
    if (!code && record_.hopeless) return Error{Error::Kind::failed, record_.hopeless->what, record_.hopeless->remedy};
    // What was refused would be refused again.
    if (code || code.error().kind != Error::Kind::failed || record_.unwritable) return code;
    if (restarts_ == request_.settings.spec.distributed.max_restarts) return code;
    ++restarts_;
    say(code.error().what);
    say(fmt::format("restarting from the last checkpoint (restart {} of at most {}; it had reached step {})",
                    restarts_, request_.settings.spec.distributed.max_restarts, std::max(before, record_.step)));
  }
}

store::RunResult Run::result_of(const Result<int>& code) const {
  store::RunResult result;
  result.status = !code ? store::Ending::failed : *code == 0 ? store::Ending::done : store::Ending::interrupted;
  result.steps = record_.step;
  result.final_loss = record_.loss;
  // The newest evaluation may be an earlier command's.
  if (const auto metrics = store::read_metrics(folder_->metrics())) {
    result.eval_loss = metrics->last("eval_loss");
    result.exact_match = metrics->last("exact_match");
  }
  result.seconds = earlier_seconds_ + seconds();
  result.restarts = restarts_;
  if (!code) result.error = code.error().what;
  return result;
}

// A run does not fail because its picture cannot be drawn.
void Run::draw() const {
  const auto metrics = store::read_metrics(folder_->metrics());
  if (!metrics || metrics->steps.empty()) return;
  if (auto written = write_file_atomically(folder_->loss_plot(), store::loss_svg(folder_->name(), *metrics)); !written)
    listener_.note(written.error().what);
}

}  // namespace

Result<TrainSummary> train(host::Host& host, const TrainRequest& request, const TrainPlan& plan, const TrainListener& listener) {
  return Run(host, request, plan, listener).carry_out();
}

}  // namespace muster::job
