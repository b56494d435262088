// The rules of a scheduler.
#pragma once

#include "schedule/job.hpp"

namespace muster::schedule {

// Given before the first job, or left as they are.
struct Rules {
  Duration ageing = std::chrono::minutes(10);  // waiting this long is worth one step of priority
  int without_gpus = 8;                        // how many jobs that want no GPU run at the same time
  bool operator==(const Rules&) const = default;
};

}  // namespace muster::schedule
