// Starts that have to wait because something they all need is lacking.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "schedule/job.hpp"

namespace muster::schedule {

enum class Shortage {
  machine,  // nothing can be started: disk, memory, processes, open files
  gpus,     // GPUs cannot be leased; jobs without GPUs can be started
};

struct StartPause {
  Time until;
  std::string reason;
  bool operator==(const StartPause&) const = default;
};

// Both kinds of shortage, each with the pause that it led to.
struct StartPauses {
  std::optional<StartPause> machine, gpus;

  std::optional<StartPause>& of(Shortage shortage) { return shortage == Shortage::machine ? machine : gpus; }
  void drop_until(Time now) {
    for (std::optional<StartPause>* pause : {&machine, &gpus})
      if (*pause && (*pause)->until <= now) pause->reset();
  }
  bool operator==(const StartPauses&) const = default;
};

// Not counted any further: the pause stops growing.
constexpr int most_postponed = 1000;

// How long nothing is started after a job could not be started for the n-th time in a row.
constexpr Duration pause_after(int postponed) {
  constexpr int most_doublings = 7;
  constexpr Duration first{250}, longest{30'000};
  return std::min(first * (1 << std::clamp(postponed - 1, 0, most_doublings)), longest);
}

}  // namespace muster::schedule
