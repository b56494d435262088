#include "schedule/reservation.hpp"

#include <algorithm>

namespace muster::schedule {
namespace {

/* Note [What may pass the first in the line]
   The first job in the line, here the gang, wants more GPUs than are free. Running jobs are expected to end at known
   times; walking through them tells when there will be enough (`expected`). Somebody behind the gang may begin now
   - when he is expected to have ended by then, or
   - on GPUs that will be left over then (`spare`).
   Neither takes anything from the gang, as long as predictions hold.

   A job without a prediction, or one that has outlived its own, may end now or never. The first makes the gang's
   earliest moment earlier: `not_before` counts all such jobs as ended, and nobody who ends later may pass. The second
   makes leftovers uncertain: the gang might begin with exactly what it needs, so nothing is spare. */
class Walk {
 public:
  Walk(std::span<const GpuNumber> avoided, const JobTable& jobs, const GpuPool& pool)
      : avoided_(avoided), jobs_(jobs), pool_(pool) {}

  // GPUs that the gang can use once this job has ended.
  int released(JobIndex job) const {
    const std::vector<GpuNumber>& gpus = jobs_.at(job).gpus;
    return static_cast<int>(
        std::ranges::count_if(gpus, [&](GpuNumber gpu) { return pool_.is_usable(gpu) && is_wanted(gpu); }));
  }
  int free() const {
    int count = pool_.free();
    for (const GpuNumber gpu : avoided_)
      if (pool_.is_free(gpu)) --count;
    return count;
  }

 private:
  bool is_wanted(GpuNumber gpu) const { return std::ranges::find(avoided_, gpu) == avoided_.end(); }

  std::span<const GpuNumber> avoided_;
  const JobTable& jobs_;
  const GpuPool& pool_;
};

// When this many GPUs are available, with `available` now; jobs that end at that same moment count too.
std::pair<std::optional<Time>, int> walk_until(int wanted, int available, const Walk& walk, const RunningJobs& running,
                                               Time now) {
  if (available >= wanted) return {now, available};
  std::optional<Time> moment;
  for (auto next = running.expected().lower_bound({now, JobIndex{}}); next != running.expected().end(); ++next) {
    if (moment && next->first > *moment) break;
    available += walk.released(next->second);
    if (available >= wanted) moment = next->first;
  }
  return {moment, available};
}

}  // namespace

Reservation reserve(JobIndex job, std::vector<GpuNumber> avoided, const JobTable& jobs, const GpuPool& pool,
                    const RunningJobs& running, Time now) {
  const Walk walk(avoided, jobs, pool);
  const int wanted = jobs.at(job).job.gpus.minimum;
  int uncertain = 0;
  for (const JobIndex other : running.unexpected()) uncertain += walk.released(other);
  for (auto late = running.expected().begin(); late != running.expected().end() && late->first < now; ++late)
    uncertain += walk.released(late->second);

  const auto [expected, then] = walk_until(wanted, walk.free(), walk, running, now);
  const auto [earliest, _] = walk_until(wanted, walk.free() + uncertain, walk, running, now);
  Reservation reservation{job, {}, earliest.value_or(now), 0, expected};
  if (expected && uncertain == 0) reservation.spare = then - wanted;
  reservation.avoided = std::move(avoided);
  return reservation;
}

}  // namespace muster::schedule
