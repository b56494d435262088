#include "service/train.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "base/allotted_cores.hpp"
#include "base/files.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/training_checkpoint.hpp"
#include "service/plan_report.hpp"
#include "service/train_job.hpp"
#include "service/train_resume.hpp"
#include "store/loss_plot.hpp"
#include "store/metrics_table.hpp"

namespace muster::service {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// One run, over all its attempts.
class Run {
 public:
  Run(Host& host, const TrainWish& wish, const TrainPlan& plan, const TrainListener& listener)
      : host_(host), wish_(wish), plan_(plan), listener_(listener), began_(Clock::now()) {}

  Result<TrainSummary> carry_out() {
    if (!leads()) return follow();
    if (auto opened = open_folder(); !opened) return opened.error();
    auto code = attempt_until_done();
    store::RunResult result = result_of(code);
    if (auto written = folder_->write_result(result); !written) return written.error();
    draw();
    if (!code) return code.error();
    TrainSummary summary;
    summary.exit_code = *code;
    summary.folder = folder_->path();
    summary.result = std::move(result);
    summary.evaluated = record_.evaluated;
    return summary;
  }

 private:
  // Host 0 has the run's folder; the others only compute.
  bool leads() const { return !plan_.job.hosts || plan_.job.hosts->number == 0; }
  Result<TrainSummary> follow();
  Result<void> open_folder();
  Result<int> attempt_until_done();
  Result<std::int64_t> choose_checkpoint(wire::TrainTask& task);
  Result<int> attempt();
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
  const PlanCommandLine command({{"", {plan_.question.model->name}}}, plan::Work::training);
  if (auto written = folder_->write_plan(plan_json(plan_.question, plan_.plan, command)); !written) return written;
  return write_file_atomically(folder_->path() / identity_file, plan_.task().identity);
}

// The newest that is whole; of those that are not it is said why.
Result<std::int64_t> Run::choose_checkpoint(wire::TrainTask& task) {
  task.resume.reset();
  if (first_) return 0;
  const fs::path all = folder_->checkpoints();
  checkpoint::remove_leftovers(all);
  if (plan_.from && attempts_ == 0) {
    const auto opened = checkpoint::TrainingCheckpoint::open(*plan_.from);
    if (!opened) return opened.error();
    if (auto whole = opened->verify(allotted_cores()); !whole) return whole.error();
    const std::int64_t step = opened->state().step;
    if (auto aside = checkpoint::set_aside_newer(all, step); !aside) return aside.error();
    task.resume = plan_.from->string();
    return step;
  }
  // A checkpoint may be newer than what was written of its run when that was killed: rows would be missing.
  if (const auto rows = store::read_last_metrics(folder_->metrics()); rows)
    if (auto aside = checkpoint::set_aside_newer(all, rows->steps.empty() ? 0 : rows->steps.back()); !aside)
      return aside.error();
  const checkpoint::NewestGood found = checkpoint::newest_good(all, allotted_cores());
  for (const checkpoint::PassedOver& bad : found.passed_over)
    listener_.note(
        fmt::format("{} is not whole and is passed over: {}", bad.path.filename().string(), bad.reason.what));
  if (!found.checkpoint) {
    listener_.note("there is no checkpoint yet: the run begins anew");
    return 0;
  }
  const std::int64_t step = found.checkpoint->state().step;
  if (auto aside = checkpoint::set_aside_newer(all, step); !aside) return aside.error();
  task.resume = found.checkpoint->path().string();
  return step;
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
  const auto step = choose_checkpoint(task);
  if (!step) return step.error();
  auto recorder = store::RunRecorder::begin(*folder_, train_columns(), std::chrono::system_clock::now(), *step);
  if (!recorder) return recorder.error();
  if (recorder->last_step().value_or(0) < *step)
    listener_.note(fmt::format("metrics.csv ends before step {}: the steps in between are not in it", *step));
  first_ = false;
  if (*step > 0) listener_.note(fmt::format("going on after step {}", *step));
  record_.step = *step;
  job.logs = folder_->logs();
  TrainJob listening(plan_, *recorder, record_, listener_);
  ++attempts_;
  return run_workers(host_, job, listening, listener_.note);
}

Result<int> Run::attempt_until_done() {
  while (true) {
    const std::int64_t before = record_.step;
    auto code = attempt();
    // What was refused would be refused again.
    if (code || code.error().kind != Error::Kind::failed) return code;
    if (restarts_ == wish_.settings.spec.distributed.max_restarts) return code;
    ++restarts_;
    listener_.note(code.error().what);
    listener_.note(
        fmt::format("starting again from the last checkpoint ({} of at most {} times; it had come to step "
                    "{})",
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
