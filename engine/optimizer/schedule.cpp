#include "optimizer/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace muster::optimizer {
namespace {

// From 1 at the first of count steps towards 0 after the last.
double share_left(std::int64_t done, std::int64_t count) {
  return std::max(0.0, 1.0 - static_cast<double>(done) / static_cast<double>(std::max<std::int64_t>(count, 1)));
}

}  // namespace

double Schedule::rate(std::int64_t step) const {
  const std::int64_t done = step - 1;
  if (done < warmup_steps) return peak * (static_cast<double>(done) / static_cast<double>(warmup_steps));
  switch (kind) {
    case spec::RateSchedule::constant:
      return peak;
    case spec::RateSchedule::linear:
      return peak * share_left(done - warmup_steps, steps - warmup_steps);
    case spec::RateSchedule::cosine:
      return peak * 0.5 *
             (1.0 + std::cos(std::numbers::pi * (1.0 - share_left(done - warmup_steps, steps - warmup_steps))));
    case spec::RateSchedule::warmup_stable_decay:
      return peak * share_left(std::max<std::int64_t>(done - (steps - decay_steps), 0), decay_steps);
  }
  return peak;
}

}  // namespace muster::optimizer
