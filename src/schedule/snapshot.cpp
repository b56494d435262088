// A scheduler saved as plain values, and restored from them.
#include "schedule/snapshot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "schedule/scheduler.hpp"

namespace muster::schedule {
namespace {

// Without what can be derived.
JobRecord bare(const JobRecord& record) {
  JobRecord saved = record;
  saved.rank = Rank{};
  saved.rank.left = record.rank.left;
  saved.dependencies.clear();
  saved.dependants.clear();
  saved.unmet = 0;
  saved.strand = 0;
  return saved;
}

}  // namespace

std::unordered_set<JobIndex> Scheduler::can_forget(std::unordered_set<JobIndex> jobs) const {
  std::erase_if(jobs, [&](JobIndex job) {
    const JobRecord& record = jobs_.at(job);
    return !is_settled(record.state) || !std::ranges::all_of(record.dependants, [&](const Dependency& edge) {
      return is_settled(jobs_.at(edge.job).state);
    });
  });
  std::unordered_set<std::string_view> kept_chains;
  for (std::size_t job = 0; job < jobs_.size(); ++job)
    if (const JobIndex index{static_cast<std::uint32_t>(job)}; jobs_.at(index).job.chain && !jobs.contains(index))
      kept_chains.insert(jobs_.at(index).job.chain->name);
  std::erase_if(jobs, [&](JobIndex job) {
    const auto& chain = jobs_.at(job).job.chain;
    return chain && kept_chains.contains(chain->name);
  });
  return jobs;
}

Snapshot Scheduler::snapshot(const std::unordered_set<JobIndex>& forgotten) const {
  Snapshot snapshot{rules_, pool_.all(), links_, {}, {}, learned_.courses(), pauses_};
  std::vector<std::optional<JobIndex>> place(jobs_.size());
  const auto is_left_out = [&](JobIndex job) { return forgotten.contains(job); };
  for (std::size_t old = 0; old < jobs_.size(); ++old) {
    const JobIndex job{static_cast<std::uint32_t>(old)};
    if (is_left_out(job)) continue;
    place[old] = JobIndex{static_cast<std::uint32_t>(snapshot.jobs.size())};
    JobRecord& saved = snapshot.jobs.emplace_back(bare(jobs_.at(job)));
    for (std::vector<JobId>* list : {&saved.job.after, &saved.job.after_ok})
      std::erase_if(*list, [&](const JobId& id) { return is_left_out(*jobs_.find(id)); });
    if (saved.because) saved.because = place[position(*saved.because)];
  }
  for (GpuStatus& gpu : snapshot.gpus) gpu.job.reset();
  if (reserved_) snapshot.reserved = place[position(*reserved_)];
  return snapshot;
}

// A journal may be damaged: nothing in it is trusted.
Scheduler::Taken Scheduler::check(const Snapshot& snapshot) const {
  const auto damaged = [](std::string what) {
    return Error{Error::Kind::bad_input, std::move(what), "the journal was damaged or written by another version"};
  };
  if (jobs_.size() > 0 || pool_.size() > 0) return damaged("a snapshot is the first event of a journal");
  const auto has_gpu = [&](GpuNumber gpu) {
    return number(gpu) >= 0 && static_cast<std::size_t>(number(gpu)) < snapshot.gpus.size();
  };
  std::vector<bool> is_taken(snapshot.gpus.size(), false);
  for (const JobRecord& job : snapshot.jobs) {
    if (!std::ranges::all_of(job.gpus, has_gpu) || !std::ranges::all_of(job.avoided, has_gpu))
      return damaged(fmt::format("job {} has a GPU that is not there", job.job.id.text));
    if (job.because && position(*job.because) >= snapshot.jobs.size())
      return damaged(fmt::format("job {} was skipped for a job that is not there", job.job.id.text));
    if (!has_gpus(job.state)) continue;
    if (!job.started || !job.last_sign) return damaged(fmt::format("job {} runs and never began", job.job.id.text));
    for (const GpuNumber gpu : job.gpus) {
      if (is_taken[static_cast<std::size_t>(number(gpu))])
        return damaged(fmt::format("job {} has a GPU of another one", job.job.id.text));
      is_taken[static_cast<std::size_t>(number(gpu))] = true;
    }
  }
  for (std::size_t gpu = 0; gpu < is_taken.size(); ++gpu)
    if ((snapshot.gpus[gpu].state == GpuState::taken && !is_taken[gpu]) ||
        (snapshot.gpus[gpu].state == GpuState::free && is_taken[gpu]))
      return damaged(fmt::format("GPU {} and the jobs disagree about who has it", gpu));
  constexpr int longest_step = 8 * 60;
  for (const DurationEstimates::Course& course : snapshot.lengths)
    if (const int step = static_cast<int>(course.step); step < 0 || step > longest_step)
      return damaged(fmt::format("jobs called {} take step {}", course.name, step));
  for (const GpuLink& link : snapshot.links)
    if (!has_gpu(link.a) || !has_gpu(link.b)) return damaged("a link leads to a GPU that is not there");
  if (snapshot.reserved && (position(*snapshot.reserved) >= snapshot.jobs.size() ||
                            snapshot.jobs[position(*snapshot.reserved)].state != JobState::ready))
    return damaged("GPUs are kept for a job that does not wait for them");
  return {};
}

Scheduler::Taken Scheduler::take(const Snapshot& snapshot) {
  if (const Taken sound = check(snapshot); !sound) return sound;
  if (const Taken taken = take(snapshot.rules); !taken) return taken;
  if (const Taken taken = jobs_.restore(snapshot.jobs, static_cast<int>(snapshot.gpus.size()), snapshot.rules.ageing);
      !taken)
    return taken;
  for (const GpuStatus& gpu : snapshot.gpus) pool_.restore(gpu);
  links_ = snapshot.links;
  learned_.restore(snapshot.lengths);
  for (std::size_t job = 0; job < jobs_.size(); ++job) restore(JobIndex{static_cast<std::uint32_t>(job)});
  reserved_ = snapshot.reserved;
  pauses_ = snapshot.pauses;
  return {};
}

// Its place in the line, or on its GPUs.
void Scheduler::restore(JobIndex job) {
  const JobRecord& record = jobs_.at(job);
  if (record.state == JobState::ready) stand_in_line(job);
  if (!has_gpus(record.state)) return;
  for (const GpuNumber gpu : record.gpus) pool_.occupy(gpu, job);
  if (record.gpus.empty()) ++running_without_gpus_;
  running_.add(job, record.expected_end, record.state == JobState::running ? deadline(record) : std::optional<Time>());
}

}  // namespace muster::schedule
