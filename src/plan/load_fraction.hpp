// Relative loads that are compared exactly.
#pragma once

#include <algorithm>
#include <cstdint>

#include "plan/wide.hpp"

namespace muster::plan {

// used / capacity, capacity > 0.
struct LoadFraction {
  std::int64_t used = 0;
  std::int64_t capacity = 1;

  double value() const { return static_cast<double>(used) / static_cast<double>(capacity); }
  bool operator<(const LoadFraction& other) const { return Wide{used} * other.capacity < Wide{other.used} * capacity; }

  // The most bytes on a device of that capacity whose load is at most this, or less than this (-1: none).
  std::int64_t most_on(std::int64_t device_capacity) const {
    return static_cast<std::int64_t>(Wide{used} * device_capacity / capacity);
  }
  std::int64_t most_below_on(std::int64_t device_capacity) const {
    const Wide product = Wide{used} * device_capacity;
    return product == 0 ? -1 : static_cast<std::int64_t>((product - 1) / capacity);
  }
};

}  // namespace muster::plan
