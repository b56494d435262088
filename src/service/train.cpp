#include "service/train.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "base/allotted_cores.hpp"
#include "base/files.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/training_checkpoint.hpp"
#include "service/plan_report.hpp"
#include "service/train_job.hpp"
#include "service/train_remedies.hpp"
#include "service/train_resume.hpp"
#include "store/loss_plot.hpp"
#include "store/metrics_table.hpp"

namespace muster::service {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// What processes that were killed left half-made. For when no rank is left.
void tidy(const store::RunFolder& folder) {
  checkpoint::remove_leftovers(folder.checkpoints());
  std::error_code ignored;
  std::vector<fs::path> unwanted;
  for (const auto& entry : fs::directory_iterator(folder.path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find(".part-") != std::string::npos || name.starts_with(".model.")) unwanted.push_back(entry.path());
  }
  for (const fs::path& path : unwanted) fs::remove_all(path, ignored);
}

// One run, over all its attempts.
class Run {
 public:
  Run(Host& host, const TrainWish& wish, const TrainPlan& plan, const TrainListener& listener)
      : host_(host), wish_(wish), plan_(plan), listener_(listener), began_(Clock::now()) {}

  Result<TrainSummary> carry_out() {
    if (!leads()) return follow();
    if (auto opened = open_folder(); !opened) return opened.error();
    auto code = attempt_until_done();
    tidy(*folder_);
    store::RunResult result = result_of(code);
    const auto written = folder_->write_result(result);
    draw();
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
  Result<int> attempt_until_done();
  Result<Beginning> choose_checkpoint(wire::TrainTask& task);
  Result<Beginning> begin_at(const checkpoint::TrainingCheckpoint& found, wire::TrainTask& task);
  Result<store::RunRecorder> open_recorder(const Beginning& beginning);
  Result<int> attempt();
  Error with_a_way_on(Error error) const {
    if (!record_.saved && error.kind != Error::Kind::failed) return error;
    const std::string way = record_.saved ? fmt::format("the same command with --resume {} goes on after step {}",
                                                        fs::proximate(folder_->path()).string(), *record_.saved)
                                          : "there was no checkpoint yet to go on from (training.save_steps)";
    error.remedy = error.remedy.empty() ? way : error.remedy + "; " + way;
    return error;
  }
  // A line for the user, which events.jsonl has, too.
  void say(const std::string& text) {
    listener_.note(text);
    said_.push_back(text);
  }
  Result<void> write_notes(store::RunRecorder& recorder);
  Result<void> write_end(store::RunRecorder& recorder, const Result<int>& code);
  store::RunResult result_of(const Result<int>& code) const;
  void draw() const;
  double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

  Host& host_;
  const TrainWish& wish_;
  const TrainPlan& plan_;
  const TrainListener& listener_;
  Clock::time_point began_;
  std::optional<store::RunFolder> folder_;
  std::optional<store::RunLock> lock_;
  bool first_ = true;  // the folder is new, and nothing was tried in it
  int attempts_ = 0;
  std::int64_t restarts_ = 0;
  double earlier_seconds_ = 0;
  TrainRecord record_;
  std::vector<std::string> said_;  // and not yet in events.jsonl
};

Result<void> Run::open_folder() {
  if (plan_.resumes) {
    auto opened = store::RunFolder::open(*plan_.resumes);
    if (!opened) return opened.error();
    if (const auto before = opened->read_result(); before && *before) earlier_seconds_ = (*before)->seconds;
    auto held = opened->hold();
    if (!held) return held.error();
    folder_ = std::move(held->folder);
    lock_.emplace(std::move(held->lock));
    first_ = false;
  } else {
    auto held = store::RunFolder::create(wish_.settings.spec.experiment.output,
                                         wish_.settings.spec.experiment.name.value_or("train"),
                                         std::chrono::system_clock::now());
    if (!held) return held.error();
    folder_ = std::move(held->folder);
    lock_.emplace(std::move(held->lock));
  }
  if (auto written = folder_->write_spec(plan_.spec_text); !written) return written;
  if (auto written = folder_->write_plan(plan_json(plan_.question, plan_.plan, training_command)); !written)
    return written;
  return write_file_atomically(folder_->path() / identity_file, plan_.task().identity);
}

// The newest that is whole; of those that are not it is said why.
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
    say(fmt::format("{} is not whole and is passed over: {}", bad.path.filename().string(), bad.reason.what));
  if (found.checkpoint) return begin_at(*found.checkpoint, task);
  if (auto aside = checkpoint::set_aside_newer(folder_->checkpoints(), 0); !aside) return aside.error();
  say("there is no checkpoint to go on from: the run begins anew");
  return Beginning{};
}

Result<Run::Beginning> Run::begin_at(const checkpoint::TrainingCheckpoint& found, wire::TrainTask& task) {
  const checkpoint::TrainingState& state = found.state();
  if (auto aside = checkpoint::set_aside_newer(folder_->checkpoints(), state.step); !aside) return aside.error();
  task.resume = found.path().string();
  record_.saved = state.step;
  if (!state.last_steps.empty()) record_.loss = state.last_steps.back().loss;
  say(fmt::format("going on after step {}", state.step));
  return Beginning{state.step, state.last_steps};
}

// Note [Steps that nobody wrote down]
// Ranks save by themselves; this process may be killed when a checkpoint is complete, and the rows of its last steps
// are still on their way to metrics.csv. So a checkpoint holds the numbers of the steps before it, and rows that are
// missing come from there.
Result<store::RunRecorder> Run::open_recorder(const Beginning& beginning) {
  const auto now = std::chrono::system_clock::now();
  auto recorder = store::RunRecorder::begin(*folder_, train_columns(), now, beginning.step);
  if (!recorder) return recorder;
  for (const checkpoint::StepNumbers& step : beginning.last_steps)
    if (step.step > recorder->last_step().value_or(0)) {
      if (step.step != recorder->last_step().value_or(0) + 1)
        say(fmt::format("the steps from {} to {} are not in metrics.csv", recorder->last_step().value_or(0) + 1,
                        step.step - 1));
      if (auto added = recorder->add_step(now, step.step, measured_of(step)); !added) return added.error();
    }
  const nlohmann::ordered_json fields{{"attempt", attempts_ + 1},
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
  TrainJob listening(plan_, *recorder, record_, listener_);
  ++attempts_;
  auto code = run_workers(host_, job, listening, [this](const std::string& text) { say(text); });
  // A signal that came when everything was done came too late.
  if (code && *code != 0 && record_.step == task.steps && listening.ranks_done() == job.ranks) code = 0;
  if (auto written = write_end(*recorder, code); !written && code) return written.error();
  return code;
}

Result<int> Run::attempt_until_done() {
  while (true) {
    const std::int64_t before = record_.step;
    auto code = attempt();
    if (!code && record_.hopeless) return Error{Error::Kind::failed, record_.hopeless->what, record_.hopeless->remedy};
    // What was refused would be refused again.
    if (code || code.error().kind != Error::Kind::failed || record_.unwritable) return code;
    if (restarts_ == wish_.settings.spec.distributed.max_restarts) return code;
    ++restarts_;
    say(code.error().what);
    say(fmt::format("starting again from the last checkpoint ({} of at most {} times; it had come to step {})",
                    restarts_, wish_.settings.spec.distributed.max_restarts, std::max(before, record_.step)));
  }
}

store::RunResult Run::result_of(const Result<int>& code) const {
  store::RunResult result;
  result.status = !code ? store::Ending::failed : *code == 0 ? store::Ending::done : store::Ending::interrupted;
  result.steps = record_.step;
  result.final_loss = record_.loss;
  if (record_.evaluated) {
    result.eval_loss = record_.evaluated->loss;
    if (record_.evaluated->questions.value_or(0) > 0)
      result.exact_match =
          static_cast<double>(*record_.evaluated->correct) / static_cast<double>(*record_.evaluated->questions);
  }
  result.seconds = earlier_seconds_ + seconds();
  result.restarts = restarts_;
  if (!code) result.error = code.error().what;
  return result;
}

// A picture that cannot be drawn is no reason for a run to fail.
void Run::draw() const {
  const auto metrics = store::read_metrics(folder_->metrics());
  if (!metrics || metrics->steps.empty()) return;
  if (auto written = write_file_atomically(folder_->loss_plot(), store::loss_svg(folder_->name(), *metrics)); !written)
    listener_.note(written.error().what);
}

}  // namespace

Result<TrainSummary> train(Host& host, const TrainWish& wish, const TrainPlan& plan, const TrainListener& listener) {
  return Run(host, wish, plan, listener).carry_out();
}

}  // namespace muster::service
