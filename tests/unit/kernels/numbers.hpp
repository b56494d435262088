// Numbers for tests of kernels: drawn, stored as any scalar, compared by bits or with a reference in double.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/scalar.hpp"
#include "kernels/sum.hpp"
#include "kernels/thread_team.hpp"

namespace muster::kernels {

inline std::vector<VectorSet> available_sets() {
  std::vector<VectorSet> sets;
  for (const VectorSet set : {VectorSet::portable, VectorSet::avx2, VectorSet::avx512}) {
    if (is_available(set)) sets.push_back(set);
  }
  return sets;
}

// Bytes that hold numbers of one scalar.
class Numbers {
 public:
  Numbers() = default;
  Numbers(Scalar scalar, std::int64_t count)
      : scalar_(scalar), count_(count), bytes_(static_cast<std::size_t>(count) * bytes_per_element(scalar)) {}

  static Numbers drawn(Scalar scalar, std::int64_t count, unsigned seed, float width = 1.0F) {
    Numbers numbers(scalar, count);
    std::mt19937 chance(seed);
    std::normal_distribution<float> normal(0.0F, width);
    for (std::int64_t i = 0; i < count; ++i) numbers.set(i, normal(chance));
    return numbers;
  }
  static Numbers filled(Scalar scalar, std::int64_t count, float value) {
    Numbers numbers(scalar, count);
    for (std::int64_t i = 0; i < count; ++i) numbers.set(i, value);
    return numbers;
  }

  Scalar scalar() const { return scalar_; }
  std::int64_t count() const { return count_; }
  std::byte* data() { return bytes_.data(); }
  const std::byte* data() const { return bytes_.data(); }
  const std::byte* at(std::int64_t index) const {
    return bytes_.data() + static_cast<std::size_t>(index) * bytes_per_element(scalar_);
  }
  std::byte* at(std::int64_t index) { return const_cast<std::byte*>(std::as_const(*this).at(index)); }
  const float* floats() const { return reinterpret_cast<const float*>(bytes_.data()); }
  float* floats() { return reinterpret_cast<float*>(bytes_.data()); }

  // As a sum that is not exact.
  Sum sum() {
    if (scalar_ == Scalar::bfloat16) return {.rounded = reinterpret_cast<BFloat16*>(bytes_.data())};
    return {.values = floats()};
  }
  Numbers as(Scalar scalar) const {
    Numbers other(scalar, count_);
    for (std::int64_t i = 0; i < count_; ++i) other.set(i, static_cast<float>((*this)[i]));
    return other;
  }

  double operator[](std::int64_t index) const {
    float value = 0;
    with_element(scalar_, [&](auto element) {
      std::memcpy(&element, at(index), sizeof element);
      value = widen(element);
    });
    return value;
  }
  void set(std::int64_t index, float value) {
    with_element(scalar_, [&](auto element) {
      narrow(value, element);
      std::memcpy(at(index), &element, sizeof element);
    });
  }

  bool operator==(const Numbers& other) const { return bytes_ == other.bytes_; }
  // Whether count numbers from `first` on are the bits of other's from `other_first` on.
  bool same_bits(std::int64_t first, const Numbers& other, std::int64_t other_first, std::int64_t count) const {
    return std::memcmp(at(first), other.at(other_first),
                       static_cast<std::size_t>(count) * bytes_per_element(scalar_)) == 0;
  }

 private:
  Scalar scalar_ = Scalar::float32;
  std::int64_t count_ = 0;
  std::vector<std::byte> bytes_;
};

// What storing as this scalar may change, relative to a number's size.
inline double rounding_of(Scalar scalar) {
  return scalar == Scalar::float32 ? 0.0 : scalar == Scalar::bfloat16 ? 1.0 / 256 : 1.0 / 2048;
}

// The largest difference, in relation to the largest expected magnitude; every number is looked at.
inline double relative_error(const Numbers& seen, std::span<const double> expected) {
  EXPECT_EQ(static_cast<std::size_t>(seen.count()), expected.size());
  double scale = 0, worst = 0;
  for (const double value : expected) scale = std::max(scale, std::abs(value));
  for (std::int64_t i = 0; i < seen.count(); ++i) {
    const double difference = std::abs(seen[i] - expected[static_cast<std::size_t>(i)]);
    if (!(difference <= worst)) worst = difference;  // a NaN stays
  }
  return scale == 0 ? worst : worst / scale;
}

}  // namespace muster::kernels
