// How the scheduler allots GPUs: in the order of the line, and past its first job if that costs the first nothing.
#include <algorithm>
#include <stdexcept>

#include "schedule/scheduler.hpp"

namespace muster::schedule {
namespace {

// Jobs that failed somewhere are checked one by one when a job may pass; only this many of them.
constexpr int picky_looks = 64;

bool contains(std::span<const GpuNumber> list, GpuNumber gpu) { return std::ranges::find(list, gpu) != list.end(); }

}  // namespace

void Scheduler::assign() {
  if (pauses_.machine) return;
  while (running_without_gpus_ < rules_.without_gpus) {
    const auto next = line_.first_without_gpus();
    if (!next) break;
    start(next->order, {});
  }
  while (!pauses_.gpus && pool_.free() > 0) {
    const auto next = head();
    if (!next) break;
    if (!fits(*next)) {
      reserved_ = next;
      let_others_pass();
      break;
    }
    start(*next, {});
  }
  share_the_rest();
}

// The first in the line that could run on the existing GPUs. Once GPUs are kept for a job, they are kept until it
// begins; only a higher priority goes before it.
std::optional<JobIndex> Scheduler::head() const {
  std::optional<Rank> first = line_.first(pool_.usable());
  for (const Rank& rank : picky_) {
    if (first && *first < rank) break;
    if (jobs_.at(rank.order).job.gpus.minimum > pool_.usable()) continue;
    first = rank;
    break;
  }
  if (!first) return std::nullopt;
  if (reserved_ && jobs_.at(*reserved_).job.gpus.minimum <= pool_.usable() &&
      jobs_.at(first->order).job.priority <= jobs_.at(*reserved_).job.priority)
    return reserved_;
  return first->order;
}

bool Scheduler::fits(JobIndex job) const {
  const JobRecord& record = jobs_.at(job);
  int free = pool_.free();
  for (const GpuNumber gpu : banned(record))
    if (pool_.is_free(gpu)) --free;
  return record.job.gpus.minimum <= free;
}

// The GPUs that a job failed on, if there are enough others.
std::span<const GpuNumber> Scheduler::banned(const JobRecord& record) const {
  if (record.avoided.empty()) return {};
  int others = pool_.usable();
  for (const GpuNumber gpu : record.avoided)
    if (pool_.is_usable(gpu)) --others;
  return others >= record.job.gpus.minimum ? std::span<const GpuNumber>(record.avoided) : std::span<const GpuNumber>();
}

void Scheduler::let_others_pass() {
  while (pool_.free() > 0) {
    const auto kept = reservation();
    if (!kept) return;
    const auto next = first_to_pass(*kept);
    if (!next) return;
    start(next->order, kept->avoided);
  }
}

std::optional<Rank> Scheduler::first_to_pass(const Reservation& reservation) const {
  int outside = 0;
  for (const GpuNumber gpu : reservation.avoided)
    if (pool_.is_free(gpu)) ++outside;
  const int open = outside + std::min(reservation.spare, pool_.free() - outside);
  std::optional<Rank> first = line_.first_beside(open, pool_.free(), step_below(reservation.not_before - now_));
  int looks = 0;
  for (const Rank& rank : picky_) {
    if ((first && *first < rank) || ++looks > picky_looks) break;
    if (rank.order == reservation.job || !may_pass(jobs_.at(rank.order), reservation)) continue;
    return rank;
  }
  return first;
}

bool Scheduler::may_pass(const JobRecord& record, const Reservation& reservation) const {
  const std::span<const GpuNumber> unwanted = banned(record);
  int inside = 0, outside = 0;  // of the reservation, of the free GPUs that this job would take
  for (const GpuNumber gpu : pool_.free_list())
    if (!contains(unwanted, gpu)) ++(contains(reservation.avoided, gpu) ? outside : inside);
  const int wanted = record.job.gpus.minimum;
  if (wanted > inside + outside) return false;
  return wanted <= outside + std::min(reservation.spare, inside) ||
         record.lane <= step_below(reservation.not_before - now_);
}

void Scheduler::start(JobIndex job, std::span<const GpuNumber> preferred) {
  JobRecord& record = jobs_.at(job);
  leave_line(job);
  record.gpus = pick(record, record.job.gpus.minimum, preferred);
  std::ranges::sort(record.gpus);
  pool_.take(record.gpus, job, now_);
  if (record.gpus.empty()) ++running_without_gpus_;
  record.state = JobState::running;
  ++record.attempts;
  record.started = record.last_sign = now_;
  running_.add(job, std::nullopt, deadline(record));
  expect_end(record);
  if (record.job.gpus.is_elastic()) grown_.push_back({job, decisions_.size()});
  decisions_.push_back(Start{record.job.id, record.gpus, record.attempts});
}

std::vector<GpuNumber> Scheduler::pick(const JobRecord& record, int count, std::span<const GpuNumber> preferred) const {
  const auto wanted = static_cast<std::size_t>(count);
  const bool has_choice = choose_ || (!links_.empty() && record.job.gpus.most() > 1);
  if (!has_choice && preferred.empty() && record.avoided.empty()) return pool_.free_list(wanted);
  const std::span<const GpuNumber> unwanted = banned(record);
  std::vector<GpuNumber> tiers[3];  // preferred, others, those it failed on if there are no others
  for (const GpuNumber gpu : pool_.free_list())
    if (!contains(unwanted, gpu))
      tiers[contains(record.avoided, gpu) ? 2 : contains(preferred, gpu) ? 0 : 1].push_back(gpu);
  std::vector<GpuNumber> picked;
  for (const auto& tier : tiers) {
    const std::size_t missing = wanted - picked.size();
    if (has_choice && missing > 0 && missing < tier.size()) {
      std::vector<GpuNumber> beside = picked;
      if (has_gpus(record.state)) beside.insert(beside.end(), record.gpus.begin(), record.gpus.end());
      const std::vector<GpuNumber> chosen =
          choose_ ? choose_(tier, missing, beside) : best_linked(links_, tier, missing, beside);
      if (chosen.size() != missing || !std::ranges::all_of(chosen, [&](GpuNumber gpu) { return contains(tier, gpu); }))
        throw std::logic_error("the chooser of GPUs gave others than it was asked for");
      picked.insert(picked.end(), chosen.begin(), chosen.end());
    } else {
      picked.insert(picked.end(), tier.begin(),
                    tier.begin() + static_cast<std::ptrdiff_t>(std::min(missing, tier.size())));
    }
  }
  return picked;
}

// Elastic jobs that begin now share GPUs that no job waits for, evenly, and leave a share to chains that will want it.
void Scheduler::share_the_rest() {
  if (grown_.empty() || pool_.free() == 0 || head()) return;
  const int part = pool_.usable() / std::max(1, jobs_.growing_strands());
  std::vector<int> gpus;
  for (const Grown& grown : grown_) gpus.push_back(static_cast<int>(jobs_.at(grown.job).gpus.size()));
  int left = pool_.free();
  for (bool more = true; more && left > 0;) {
    more = false;
    for (std::size_t i = 0; i < grown_.size() && left > 0; ++i) {
      const GpuRequest& request = jobs_.at(grown_[i].job).job.gpus;
      if (gpus[i] >= std::min(request.most(), std::max(part, request.minimum))) continue;
      ++gpus[i];
      --left;
      more = true;
    }
  }
  for (std::size_t i = 0; i < grown_.size(); ++i) grow(grown_[i], gpus[i]);
}

void Scheduler::grow(const Grown& grown, int gpus) {
  JobRecord& record = jobs_.at(grown.job);
  const int missing = gpus - static_cast<int>(record.gpus.size());
  if (missing <= 0) return;
  std::vector<GpuNumber> more = pick(record, missing, {});
  pool_.take(more, grown.job, now_);
  record.gpus.insert(record.gpus.end(), more.begin(), more.end());
  std::ranges::sort(record.gpus);
  expect_end(record);
  std::get<Start>(decisions_[grown.decision]).gpus = record.gpus;
}

std::optional<Reservation> Scheduler::reservation() const {
  if (!reserved_) return std::nullopt;
  const std::span<const GpuNumber> avoided = banned(jobs_.at(*reserved_));
  return reserve(*reserved_, {avoided.begin(), avoided.end()}, jobs_, pool_, running_, now_);
}

std::vector<JobIndex> Scheduler::before(JobIndex job, std::size_t most) const {
  const Rank& place = jobs_.at(job).rank;
  std::vector<Rank> ranks = line_.before(place, most);
  ranks.insert(ranks.end(), picky_.begin(), picky_.lower_bound(place));
  std::ranges::sort(ranks);
  std::vector<JobIndex> jobs;
  for (const Rank& rank : ranks)
    if (jobs.size() < most) jobs.push_back(rank.order);
  return jobs;
}

std::size_t Scheduler::count_before(JobIndex job) const {
  const Rank& place = jobs_.at(job).rank;
  return line_.count_before(place) + static_cast<std::size_t>(std::distance(picky_.begin(), picky_.lower_bound(place)));
}

}  // namespace muster::schedule
