// Predicted lengths in steps of at most an eighth, so that thousands of jobs fall into few lanes.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "schedule/job.hpp"

namespace muster::schedule {

enum class LengthStep : int { unknown = std::numeric_limits<int>::max() };

// The shortest step that a length fits in.
constexpr LengthStep step_above(Duration length) {
  const auto value = static_cast<std::uint64_t>(length.count() < 0 ? 0 : length.count());
  if (value < 16) return LengthStep{static_cast<int>(value)};
  const int shift = static_cast<int>(std::bit_width(value)) - 4;
  const bool exact = (value >> shift) << shift == value;
  return LengthStep{8 * shift + static_cast<int>(value >> shift) + (exact ? 0 : 1)};
}

// The longest step that a window has room for.
constexpr LengthStep step_below(Duration window) {
  const auto value = static_cast<std::uint64_t>(window.count() < 0 ? 0 : window.count());
  if (value < 16) return LengthStep{static_cast<int>(value)};
  const int shift = static_cast<int>(std::bit_width(value)) - 4;
  return LengthStep{8 * shift + static_cast<int>(value >> shift)};
}

// The longest length of a step.
constexpr Duration longest(LengthStep step) {
  const int value = static_cast<int>(step);
  if (value < 16) return Duration(value);
  return Duration((std::int64_t{8} + value % 8) << (value / 8 - 1));
}

}  // namespace muster::schedule
