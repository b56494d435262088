// A task that proves that ranks reach each other: every kind of collective, its result compared with the expected one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::wire {

struct CollectiveCheck {
  std::int64_t elements = 1 << 18;  // float32, of the all-reduce that is timed
  int repeats = 5;                  // of it; the fastest counts

  static constexpr std::string_view word = "collective-check";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("elements", self.elements);
    visit("repeats", self.repeats);
  }
  bool operator==(const CollectiveCheck&) const = default;
};

// What rank 0 answers, in the row of its one result.
struct CollectiveReport {
  std::string backend;  // "gloo", "nccl"
  std::string device;   // of rank 0: "cpu", "cuda:0"
  int ranks = 0;
  int collectives = 0;      // kinds that gave the right result on every rank
  double milliseconds = 0;  // of the all-reduce

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("backend", self.backend);
    visit("device", self.device);
    visit("ranks", self.ranks);
    visit("collectives", self.collectives);
    visit("milliseconds", self.milliseconds);
  }
  bool operator==(const CollectiveReport&) const = default;
};

}  // namespace muster::wire
