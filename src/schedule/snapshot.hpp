// A scheduler as plain values: everything it continues from, without how it got there. A journal that begins with one
// is as good as the journal that led to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/gpu_links.hpp"
#include "schedule/gpu_pool.hpp"
#include "schedule/job_table.hpp"
#include "schedule/duration_estimates.hpp"
#include "schedule/rules.hpp"
#include "schedule/start_pause.hpp"

namespace muster::schedule {

struct Snapshot {
  Rules rules;
  std::vector<GpuStatus> gpus;  // which job runs on which is in the jobs
  std::vector<GpuLink> links;
  // In order. What follows from the rest is left out: dependencies, strands, places in the line. Positions of
  // other jobs (because) are those in this list.
  std::vector<JobRecord> jobs;
  std::optional<JobIndex> reserved;  // a position in this list
  std::vector<DurationEstimates::Course> lengths;
  StartPauses pauses = {};
  bool operator==(const Snapshot&) const = default;
};

}  // namespace muster::schedule
