#include "monitor/process_watch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "system/files.hpp"
#include "system/host_name.hpp"
#include "base/text.hpp"
#include "monitor/run_search.hpp"
#include "store/find_run.hpp"
#include "store/run_lock.hpp"

namespace muster::monitor {
namespace {

namespace fs = std::filesystem;

// How late we notice runs that continue without a change in their folder (muster train --resume).
constexpr std::chrono::seconds between_listings(10);
constexpr std::chrono::seconds between_searches(3);
constexpr std::size_t focused_process_bytes = 256 * 1024;

// The value of a variable in the environment that a process was started with; we may not be allowed to see it.
std::optional<std::string> variable_of(pid_t pid, std::string_view name) {
  const auto text = read_file(fs::path("/proc") / std::to_string(pid) / "environ");
  if (!text) return std::nullopt;
  for (const std::string& entry : split(*text, '\0'))
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  return std::nullopt;
}

// The process that works on a run, if it is on this host: "process 4711 on host7".
std::optional<pid_t> worker_of(const fs::path& run) {
  const auto words = split(store::holder(run).value_or(""), ' ');
  if (words.size() != 4 || words[3] != host_name()) return std::nullopt;
  return parse_number<pid_t>(words[1]);
}

std::string id_of(pid_t pid) { return fmt::format("pid {}", pid); }

Time moment(std::int64_t seconds) { return Time(std::chrono::seconds(seconds)); }

}  // namespace

void ProcessWatch::find_locked_runs() {
  const auto clock = Clock::now();
  const bool changed = runs_mark_.has_changed(runs_);
  if (!changed && clock - last_listing_ < between_listings) {
    std::erase_if(locked_, [](const fs::path& run) { return !store::is_locked(run); });
    return;
  }
  last_listing_ = clock;
  locked_.clear();
  for (const store::RunFolder& run : store::folders_in(runs_))
    if (run.looks_like_a_run() && store::is_locked(run.path())) locked_.push_back(run.path());
}

ProcessWatch::Known& ProcessWatch::know(const std::string& id, std::optional<pid_t> pid) {
  const auto [found, is_new] = known_.try_emplace(id);
  Known& known = found->second;
  known.is_here = true;
  const auto status = pid ? read_process_status(*pid) : std::nullopt;
  const auto identity = status ? std::optional(status->identity) : std::nullopt;
  if (!is_new && known.process == identity) return known;
  known = Known{};  // another process with the same number
  known.is_here = true;
  known.process = identity;
  if (!pid) return known;
  known.job_of_queue = variable_of(*pid, "MUSTER_JOB");
  if (const auto facts = read_process(*pid)) known.command = facts->command.value_or("");
  return known;
}

JobSample& ProcessWatch::job_in(Sample& sample, const std::string& id, Known& known) {
  const auto found = std::ranges::find(sample.jobs, id, &JobSample::id);
  if (found != sample.jobs.end()) return *found;
  JobSample& job = sample.jobs.emplace_back();
  job.id = id;
  job.kind = JobKind::process;
  job.phase = JobPhase::running;
  job.state = "running";
  job.command = known.command;
  job.process = known.process;
  job.since = known.since;
  if (known.run) {
    job.run = known.run->folder().string();
    job.label = known.run->folder().filename().string();
    job.progress = known.run->refresh();
  }
  ++sample.counts.running;
  return job;
}

// Processes that hold GPUs, each with all that it holds.
void ProcessWatch::add_holders(Sample& sample, QueueWatch* queue) {
  for (GpuSample& gpu : sample.gpus.gpus) {
    if (gpu.job || !gpu.holder || !gpu.holder->pid) continue;
    const pid_t pid = *gpu.holder->pid;
    if (queue != nullptr && queue->is_conductor(pid)) continue;  // between two of its jobs
    const std::string id = id_of(pid);
    Known& known = know(id, pid);
    if (gpu.holder->since) known.since = moment(*gpu.holder->since);
    if (known.command.empty()) known.command = gpu.holder->command.value_or("");
    if (const auto clock = Clock::now(); !known.run && clock >= known.next_search) {
      known.next_search = clock + between_searches;
      if (const auto run = run_of_process(pid)) known.run.emplace(*run);
    }
    job_in(sample, id, known).gpus.push_back(gpu.shown.value_or(gpu.index));
    gpu.job = id;
  }
}

void ProcessWatch::add_runs(Sample& sample, QueueWatch* queue) {
  find_locked_runs();
  for (const fs::path& run : locked_) {
    const bool is_shown = std::ranges::any_of(known_, [&](const auto& entry) {
      return entry.second.is_here && entry.second.run && entry.second.run->folder() == run;
    });
    if (is_shown || (queue != nullptr && queue->has_run(run))) continue;
    const auto pid = worker_of(run);
    const std::string id = pid ? id_of(*pid) : run.filename().string();
    Known& known = know(id, pid);
    if (known.job_of_queue && queue != nullptr && queue->adopt_run(*known.job_of_queue, run)) continue;
    if (!known.run) known.run.emplace(run);
    if (const auto folder = store::RunFolder::open(run); folder && !known.since)
      known.since = std::chrono::floor<std::chrono::milliseconds>(folder->created());
    job_in(sample, id, known);
  }
}

void ProcessWatch::add_jobs(Sample& sample, QueueWatch* queue) {
  for (auto& [id, known] : known_) known.is_here = false;
  add_holders(sample, queue);
  add_runs(sample, queue);
  std::erase_if(known_, [](const auto& entry) { return !entry.second.is_here; });
}

std::optional<std::vector<std::string>> ProcessWatch::lines_of(const std::string& id, std::size_t most) {
  const auto found = known_.find(id);
  if (found == known_.end() || !found->second.run) return std::nullopt;
  const fs::path log = found->second.run->log();
  if (!focus_ || focus_->path() != log) focus_.emplace(log, focused_process_bytes);
  focus_->refresh();
  return focus_->lines(most);
}

}  // namespace muster::monitor
