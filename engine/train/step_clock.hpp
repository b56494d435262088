// Where the time of a step goes.
#pragma once

#include <chrono>
#include <optional>

#include "parallel/collective_queue.hpp"
#include "wire/train_event.hpp"

namespace muster::train {

class StepClock {
 public:
  explicit StepClock(at::Device device) : device_(device) {}

  // The moments of a step, in their order.
  void begin();    // the run begins
  void loading();  // the batch is waited for
  // It is here. Of the time since: what its answers took, where any were sampled.
  void loaded(std::optional<double> sampling, std::optional<double> judging);
  // The gradients' norm is known, so that the device has done everything that was ordered.
  void computed(const parallel::CommunicationTime& communication);
  void updating();  // the optimizer is ordered from here on
  void updated();
  // From the last begin() on; begins the next.
  struct Told {
    double seconds = 0;
    wire::StepParts parts;
  };
  Told tell();

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  }

  at::Device device_;
  Clock::time_point began_ = Clock::now(), last_ = began_;
  wire::StepParts parts_;
  std::optional<parallel::TimeMark> updating_, updated_;
};

}  // namespace muster::train
