#include "train/step_clock.hpp"

#include <algorithm>

namespace muster::train {

void StepClock::begin() { began_ = Clock::now(); }

void StepClock::loading() { last_ = Clock::now(); }

// A step that is computed again, because memory ran out, counts all the time that it took.
void StepClock::loaded(std::optional<double> sampling, std::optional<double> judging) {
  const auto now = Clock::now();
  parts_.loading += std::max(seconds(last_, now) - sampling.value_or(0) - judging.value_or(0), 0.0);
  if (sampling) parts_.sampling = parts_.sampling.value_or(0) + *sampling;
  if (judging) parts_.judging = parts_.judging.value_or(0) + *judging;
  last_ = now;
}

void StepClock::computed(const parallel::CommunicationTime& communication) {
  double took = seconds(last_, Clock::now());
  // What a GPU was ordered to update comes first there, and the host did not wait for it.
  if (device_.is_cuda() && updated_) {
    const double update = updating_->seconds_until(*updated_);
    parts_.update += update;
    took -= update;
    updated_.reset();
  }
  parts_.exposed += communication.exposed;
  parts_.communication += communication.busy;
  parts_.compute += std::max(took - communication.exposed, 0.0);
}

void StepClock::updating() { updating_ = parallel::TimeMark::now(device_); }

void StepClock::updated() {
  updated_ = parallel::TimeMark::now(device_);
  if (device_.is_cuda()) return;
  parts_.update += updating_->seconds_until(*updated_);
  updated_.reset();
}

StepClock::Told StepClock::tell() {
  const auto now = Clock::now();
  Told told{seconds(began_, now), std::exchange(parts_, {})};
  wire::StepParts& parts = told.parts;
  parts.host = std::max(told.seconds - parts.loading - parts.sampling.value_or(0) - parts.judging.value_or(0) -
                            parts.compute - parts.exposed - parts.update,
                        0.0);
  began_ = now;
  return told;
}

}  // namespace muster::train
