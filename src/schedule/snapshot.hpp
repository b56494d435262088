// A scheduler as plain values: all that it goes on from, without the way it came there. A journal that begins with one
// is as good as the journal that led to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/gpu_links.hpp"
#include "schedule/gpu_pool.hpp"
#include "schedule/job_table.hpp"
#include "schedule/learned_lengths.hpp"
#include "schedule/rules.hpp"

namespace muster::schedule {

struct Snapshot {
  Rules rules;
  std::vector<GpuStatus> gpus;  // who runs on which is told by the jobs
  std::vector<GpuLink> links;
  // In their order. What follows from the others is left out: dependencies, strands, places in the line. Positions of
  // other jobs (because) are those in this list.
  std::vector<JobRecord> jobs;
  std::optional<JobIndex> reserved;  // a position in this list
  std::vector<LearnedLengths::Course> lengths;
  bool operator==(const Snapshot&) const = default;
};

}  // namespace muster::schedule
