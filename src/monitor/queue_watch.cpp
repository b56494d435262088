#include "monitor/queue_watch.hpp"

#include <algorithm>

#include "system/files.hpp"
#include "base/text.hpp"
#include "monitor/run_search.hpp"
#include "monitor/status_text.hpp"
#include "queue/attempt_file.hpp"
#include "schedule/why.hpp"

namespace muster::monitor {
namespace {

namespace fs = std::filesystem;
using schedule::JobRecord;
using schedule::JobState;

constexpr std::size_t most_waiting = 2000;
constexpr std::size_t most_settled = 50;
constexpr std::size_t focused_job_bytes = 256 * 1024;
constexpr std::chrono::seconds longest_pause(60);
// Files are read this often even if they do not seem to have changed.
constexpr std::chrono::seconds unconditional(5);

JobPhase phase_of(JobState state) {
  if (is_settled(state)) return JobPhase::settled;
  return has_gpus(state) ? JobPhase::running : JobPhase::waiting;
}

template <class Value>
void overlay(std::optional<Value>& below, const std::optional<Value>& above) {
  if (above) below = above;
}

// What the files of a run say takes precedence over its last line.
void overlay(Progress& line, const Progress& run) {
  overlay(line.step, run.step);
  overlay(line.total, run.total);
  overlay(line.loss, run.loss);
  overlay(line.tokens_per_second, run.tokens_per_second);
  overlay(line.seconds_left, run.seconds_left);
}

}  // namespace

QueueWatch::QueueWatch(queue::StateFolder folder) : folder_(folder), view_(folder), commands_(std::move(folder)) {}

std::optional<std::string> QueueWatch::refresh(Time now) {
  now_ = now;
  const bool journal = journal_.has_changed(folder_.journal());
  const bool inbox = inbox_.has_changed(folder_.inbox());
  const auto clock = Clock::now();
  if (!journal && !inbox && clock - last_read_ < unconditional) return std::nullopt;
  last_read_ = clock;
  auto untaken = view_.refresh_with_inbox();
  untaken_ = untaken ? std::move(*untaken) : std::vector<queue::Batch>();
  sort_jobs();  // in any case: a journal that cannot be read to its end may differ from before
  return untaken ? std::nullopt : std::optional(untaken.error().what);
}

void QueueWatch::sort_jobs() {
  running_.clear(), waiting_.clear(), settled_.clear();
  counts_ = {};
  const auto& all = view_.scheduler().jobs().all();
  for (std::size_t position = 0; position < all.size(); ++position) {
    const auto index = static_cast<schedule::JobIndex>(position);
    switch (phase_of(all[position].state)) {
      case JobPhase::running:
        running_.push_back(index);
        break;
      case JobPhase::waiting:
        if (++counts_.waiting <= most_waiting) waiting_.push_back(index);
        break;
      case JobPhase::settled:
        settled_.push_back(index);
        break;
    }
  }
  counts_.running = running_.size();
  counts_.settled = settled_.size();
  const auto newest_first = [&](schedule::JobIndex a, schedule::JobIndex b) {
    const auto& first = all[schedule::position(a)].ended;
    const auto& second = all[schedule::position(b)].ended;
    return first == second ? a > b : first > second;
  };
  const auto shown = static_cast<std::ptrdiff_t>(std::min(most_settled, settled_.size()));
  std::ranges::partial_sort(settled_, settled_.begin() + shown, newest_first);
  settled_.resize(static_cast<std::size_t>(shown));
  jobs_on_gpus_.clear();
  for (const schedule::GpuStatus& gpu : view_.scheduler().gpus().all())
    if (gpu.job) jobs_on_gpus_[gpu.name] = all[schedule::position(*gpu.job)].job.id.text;
  commands_.keep([&](const std::string& id) { return view_.scheduler().jobs().find({id}).has_value(); });
  std::erase_if(watched_, [&](const auto& entry) {
    const auto job = view_.scheduler().jobs().find({entry.first});
    return !job || !has_gpus(all[schedule::position(*job)].state);
  });
}

void QueueWatch::add_jobs(Sample& sample, const std::map<std::string, int>& numbers) {
  const auto& jobs = view_.scheduler().jobs();
  for (const auto* group : {&running_, &waiting_, &settled_}) {
    for (const schedule::JobIndex index : *group) sample.jobs.push_back(describe(jobs.at(index), numbers));
    if (group != &waiting_) continue;
    for (const queue::Batch& batch : untaken_)
      for (const queue::QueuedJob& queued : batch.jobs) {
        if (++sample.counts.waiting > most_waiting) continue;
        JobSample& job = sample.jobs.emplace_back();
        job.id = queued.job.id.text;
        job.state = "submitted";
        job.label = queued.job.label;
        job.command = queue::spoken_command(queued.command);
        job.gpus_wanted = queued.job.gpus.minimum;
      }
  }
  sample.counts.running += counts_.running;
  sample.counts.waiting += counts_.waiting;
  sample.counts.settled += counts_.settled;
}

JobSample QueueWatch::describe(const JobRecord& record, const std::map<std::string, int>& numbers) {
  JobSample job;
  job.id = record.job.id.text;
  job.phase = phase_of(record.state);
  job.state = name(record.state);
  job.label = record.job.label;
  job.command = commands_.find(job.id);
  job.gpus_wanted = record.job.gpus.minimum;
  job.reason = record.reason;
  job.ended = record.ended;
  job.since = job.phase == JobPhase::waiting ? std::optional(record.submitted) : record.started;
  if (job.phase != JobPhase::running) return job;
  for (const schedule::GpuNumber gpu : record.gpus) {
    const auto found = numbers.find(view_.scheduler().gpus().at(gpu).name);
    job.gpus.push_back(found != numbers.end() ? found->second : number(gpu));
  }
  add_progress(record, job);
  return job;
}

void QueueWatch::add_progress(const JobRecord& record, JobSample& job) {
  RunningJob& running = watched_.try_emplace(job.id, folder_.log(record.job.id)).first->second;
  if (running.log.refresh()) {
    const auto lines = running.log.lines(1);
    running.last_line = lines.empty() ? "" : lines.front();
    if (auto progress = progress_of_line(running.last_line)) running.progress = *progress;
  }
  if (!running.run) look_for_run(record, running);
  job.last_line = running.last_line;
  job.progress = running.progress;
  if (running.run) {
    job.run = running.run->folder().string();
    overlay(job.progress, running.run->refresh());
  }
  if (!job.progress.seconds_left && record.expected_end && *record.expected_end > now_)
    job.progress.seconds_left = std::chrono::duration<double>(*record.expected_end - now_).count();
}

// A job may take a while before it begins a run, and most never do: the search gets less and less frequent.
void QueueWatch::look_for_run(const JobRecord& record, RunningJob& running) const {
  const auto clock = Clock::now();
  if (clock < running.next_search) return;
  running.next_search = clock + running.pause;
  running.pause = std::min(running.pause * 2, longest_pause);
  const auto text = read_file(folder_.attempt(record.job.id, record.attempts));
  if (!text) return;
  const auto keeper = queue::parse_attempt(*text).keeper;
  if (!keeper) return;
  const auto status = read_process_status(keeper->pid);
  if (!status || status->identity != *keeper) return;  // it is gone, and its number may belong to another process
  if (const auto run = run_of_process(keeper->pid)) running.run.emplace(*run);
}

bool QueueWatch::has_run(const fs::path& folder) const {
  return std::ranges::any_of(
      watched_, [&](const auto& entry) { return entry.second.run && entry.second.run->folder() == folder; });
}

bool QueueWatch::adopt_run(const std::string& id, const fs::path& folder) {
  const auto job = view_.scheduler().jobs().find({id});
  if (!job || !has_gpus(view_.scheduler().jobs().at(*job).state)) return false;
  RunningJob& running = watched_.try_emplace(id, folder_.log({id})).first->second;
  if (!running.run) running.run.emplace(folder);
  return true;
}

// Finding them requires simulating all jobs before it: repeated when something has happened, and every few seconds.
const std::vector<std::string>& QueueWatch::reasons_to_wait(const schedule::JobId& id) {
  const auto clock = Clock::now();
  const schedule::Time last_event = view_.scheduler().now();
  if (reasons_.job == id.text && reasons_.last_event == last_event && clock - reasons_.found < unconditional)
    return reasons_.lines;
  reasons_ = {id.text, last_event, clock, {}};
  const auto answer = schedule::why(view_.scheduler(), id);
  if (!answer) return reasons_.lines;
  std::vector<std::string>& lines = reasons_.lines = split(to_text(*answer), '\n');
  lines.erase(lines.begin());  // its state
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

std::optional<std::vector<std::string>> QueueWatch::lines_of(const std::string& id, std::size_t most) {
  const auto job = view_.scheduler().jobs().find({id});
  if (!job) return std::nullopt;
  const JobRecord& record = view_.scheduler().jobs().at(*job);
  if (phase_of(record.state) == JobPhase::waiting) return reasons_to_wait(record.job.id);
  const fs::path log = folder_.log(record.job.id);
  if (!focus_ || focus_->path() != log) focus_.emplace(log, focused_job_bytes);
  focus_->refresh();
  return focus_->lines(most);
}

bool QueueWatch::is_conductor(pid_t pid) const {
  std::error_code failure;
  return fs::equivalent(fs::path("/proc") / std::to_string(pid) / "cwd", folder_.path(), failure) && !failure;
}

}  // namespace muster::monitor
