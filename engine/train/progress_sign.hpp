// How far a rank is with something that lasts.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "wire/event.hpp"

namespace muster::train {

// Tells it now and then: somebody watches, and a rank that is long at work is not taken for one that is stuck.
class ProgressSign {
 public:
  // tell: may be empty. total: absent where it is not known.
  ProgressSign(std::function<void(const wire::EventBody&)> tell, std::string what, std::optional<std::int64_t> total)
      : tell_(std::move(tell)), what_(std::move(what)), total_(total), told_(Clock::now()) {}

  void give(std::int64_t done) {
    const auto now = Clock::now();
    if (!tell_ || now - told_ < between_signs) return;
    told_ = now;
    tell_(wire::Progress{what_, done, total_});
  }

  static constexpr std::chrono::milliseconds between_signs{200};

 private:
  using Clock = std::chrono::steady_clock;

  std::function<void(const wire::EventBody&)> tell_;
  std::string what_;
  std::optional<std::int64_t> total_;
  Clock::time_point told_;
};

}  // namespace muster::train
