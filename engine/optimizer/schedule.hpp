// How the learning rate changes over the steps of a run: transformers' schedules.
#pragma once

#include <cstdint>

#include "spec/values.hpp"

namespace muster::optimizer {

struct Schedule {
  spec::RateSchedule kind = spec::RateSchedule::linear;
  double peak = 0;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 1;  // of warmup_stable_decay: at the end
  std::int64_t steps = 1;        // of the whole run

  // For step 1, 2, …
  double rate(std::int64_t step) const;
};

}  // namespace muster::optimizer
