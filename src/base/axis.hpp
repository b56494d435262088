// An axis of a plot: round numbers at even distances, and their labels.
#pragma once

#include <string>
#include <vector>

namespace muster {

struct Axis {
  double low = 0, high = 1;   // what the plot spans; low < high
  std::vector<double> ticks;  // within it, increasing
  int decimals = 0;           // needed to distinguish the ticks; negative: whole tens suffice

  // Where a value is, from 0 (low) to 1 (high).
  double share(double value) const { return (value - low) / (high - low); }
  std::string label(double tick) const;
};

// Spans [least, most], widened to round numbers if requested, with about wanted ticks. Both must be finite.
Axis make_axis(double least, double most, int wanted, bool widen);
// The same for counts: no ticks between whole numbers.
Axis make_count_axis(double least, double most, int wanted);

}  // namespace muster
