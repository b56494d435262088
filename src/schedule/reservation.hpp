// What is kept for the first job in the line while the GPUs it wants become free one by one, and what others may
// use until then.
#pragma once

#include <optional>
#include <vector>

#include "schedule/gpu_pool.hpp"
#include "schedule/job_table.hpp"
#include "schedule/running_jobs.hpp"

namespace muster::schedule {

struct Reservation {
  JobIndex job{};
  std::vector<GpuNumber> avoided;  // GPUs that it does not want
  Time not_before;                 // until then it cannot begin, whatever happens to jobs of unknown length
  int spare = 0;                   // of the GPUs it could use, those that will be left over when it begins
  std::optional<Time> expected;    // when it begins, if every prediction holds; absent: unknown
};

// Note [What may pass the first in the line].
Reservation reserve(JobIndex job, std::vector<GpuNumber> avoided, const JobTable& jobs, const GpuPool& pool,
                    const RunningJobs& running, Time now);

}  // namespace muster::schedule
