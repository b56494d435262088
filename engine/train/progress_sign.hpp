// How far a rank has come with something that takes long.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "wire/event.hpp"

namespace muster::train {

// Reports it now and then, as long as there is progress: somebody watches, and a rank that is busy for long is not
// taken for one that is stuck.
class ProgressSign {
 public:
  // tell: may be empty.
  ProgressSign(std::function<void(const wire::EventBody&)> tell, std::string what, std::int64_t total)
      : tell_(std::move(tell)), what_(std::move(what)), total_(total), told_(Clock::now()) {}

  void give(std::int64_t done) {
    const auto now = Clock::now();
    if (!tell_ || now - told_ < between_signs || done == done_) return;
    told_ = now;
    done_ = done;
    tell_(wire::Progress{what_, done, total_});
  }

  static constexpr std::chrono::milliseconds between_signs{200};

 private:
  using Clock = std::chrono::steady_clock;

  std::function<void(const wire::EventBody&)> tell_;
  std::string what_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  Clock::time_point told_;
};

}  // namespace muster::train
