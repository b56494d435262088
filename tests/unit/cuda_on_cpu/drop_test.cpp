// The source of drop.cu, run on the CPU.
#include "cuda/drop.cu"

#include <gtest/gtest.h>

#include "base/bit_mix.hpp"
#include "elements.hpp"

namespace muster::cuda {
namespace {

constexpr std::int64_t salt = 77;

// As tensor/dropout.hpp has it.
std::uint64_t number_of(std::int64_t key, std::int64_t column) {
  const std::uint64_t place = (std::uint64_t{salt} << 32) + static_cast<std::uint64_t>(column) + 1;
  return mix_bits(static_cast<std::uint64_t>(key) + place * golden_step) >> 40;
}

template <class T>
void expect_left_out(Scalar scalar, std::int64_t rows, std::int64_t width, double share) {
  std::vector<float> values;
  std::vector<std::int64_t> keys;
  for (std::int64_t i = 0; i < rows * width; ++i) values.push_back(static_cast<float>(i % 97) / 8 - 5);
  for (std::int64_t row = 0; row < rows; ++row)
    keys.push_back(static_cast<std::int64_t>(mix_bits(static_cast<std::uint64_t>(row))));
  Elements<T> input(values), output(values.size());
  const DropRule rule{salt, static_cast<std::uint64_t>(share * (1 << 24)), static_cast<float>(1 / (1 - share))};
  ASSERT_STREQ(drop(nullptr, scalar, input.data(), keys.data(), rule, rows, width, output.data()), "");
  for (std::int64_t i = 0; i < rows * width; ++i) {
    const bool stays = number_of(keys[static_cast<std::size_t>(i / width)], i % width) >= rule.limit;
    const float factor = stays ? widen(narrow<T>(rule.factor)) : 0.0f;
    const auto at = static_cast<std::size_t>(i);
    ASSERT_EQ(output[at], widen(narrow<T>(input[at] * factor))) << i << " of rows of " << width;
  }
}

// Whole packs and parts of them, more than one block, nothing left out and nearly everything.
TEST(Drop, LeavesOutWhatTheNumbersOfRowsAndPlacesSay) {
  for (const auto& [rows, width] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 7}, {5, 64}, {40, 100}, {9, 896}})
    for (const double share : {0.0, 0.05, 0.9}) {
      expect_left_out<float>(Scalar::float32, rows, width, share);
      expect_left_out<__nv_bfloat16>(Scalar::bfloat16, rows, width, share);
      expect_left_out<__half>(Scalar::float16, rows, width, share);
    }
}

}  // namespace
}  // namespace muster::cuda
