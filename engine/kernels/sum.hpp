// Where terms are added up: what was summed over rows or sequences so far. What a sum holds stays, terms are added.
//
// Note [Exact terms]: an exact sum counts in whole multiples of 2^-44. Each term is rounded by itself, to the nearest
// and to even on ties, and whole numbers can be added in any order. A term of 65,536 or more in magnitude, or that is
// not a number, counts in overflow instead.
#pragma once

#include <cstdint>

#include "kernels/scalar.hpp"

namespace muster::kernels {

struct Sum {
  float* values = nullptr;            // a float32 sum, or
  BFloat16* rounded = nullptr;        // one that is rounded to bfloat16 after every term, or
  std::int64_t* multiples = nullptr;  // an exact one
  std::int64_t* overflow = nullptr;   // of an exact one: a single number

  bool is_wanted() const { return values != nullptr || rounded != nullptr || multiples != nullptr; }
};

// use(values), of a sum that is not exact.
template <class Use>
void with_values(const Sum& sum, Use&& use) {
  if (sum.rounded != nullptr)
    use(sum.rounded);
  else
    use(sum.values);
}

constexpr float exact_limit = 65536.0F;
// Below this a term of float32 is rounded in one addition (lanes_portable.hpp, add_exactly).
constexpr float quick_exact_limit = 128.0F;

// value must be below exact_limit in magnitude.
[[gnu::always_inline]] inline std::int64_t exact_term(float value) {
  constexpr double round_by = 0x1.8p52;  // adding it leaves no bits for a fraction
  const double scaled = static_cast<double>(value) * 0x1p44;
  // From 2^24 on a float32 has no fraction left.
  const double whole = scaled > -0x1p50 && scaled < 0x1p50 ? (scaled + round_by) - round_by : scaled;
  return static_cast<std::int64_t>(whole);
}

}  // namespace muster::kernels
