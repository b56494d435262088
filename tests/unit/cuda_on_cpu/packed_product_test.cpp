// The source of packed_product.cu, run on the CPU, against sums in float64.
#include "cuda/packed_product.cu"

#include <gtest/gtest.h>

#include "elements.hpp"
#include "packed_example.hpp"

namespace muster::cuda {
namespace {

using cuda_on_cpu::Order;
using cuda_on_cpu::Threads;

struct Sizes {
  std::int64_t rows, outputs, inputs;
};

// What is added to a product.
struct Additions {
  bool bias = false, base = false;
};

class PackedProducts : public testing::TestWithParam<Packing> {
 protected:
  ~PackedProducts() override {
    Threads::current().order = Order::ascending;
    Threads::current().multiprocessors = 4;
  }

  // Values of codes of 4 bits are rounded to the type; a sum of float32 terms is off by some of their last places; then
  // it is rounded, once.
  template <class T>
  static double tolerance(double magnitudes, double sum) {
    const double last_place = std::is_same_v<T, __half> ? 0x1p-11 : 0x1p-8;
    const double of_code = GetParam().code == kernels::Code::int8 ? 0 : last_place;
    return magnitudes * (of_code + 0x1p-20) + std::abs(sum) * last_place + 1e-7;
  }

  template <class T>
  struct Job {
    Job(const Packing& packing, Scalar type, const Sizes& job_sizes)
        : scalar(type),
          sizes(job_sizes),
          weight(packing, Scalar::float32, sizes.outputs, sizes.inputs),
          input(random_numbers(static_cast<std::size_t>(sizes.rows * sizes.inputs), 5)),
          bias(random_numbers(static_cast<std::size_t>(sizes.outputs), 6)) {}

    // Output of a row before anything is added, and the sum of its terms' magnitudes.
    std::pair<double, double> sum_of(std::int64_t row, std::int64_t output) const {
      double sum = 0, magnitudes = 0;
      for (std::int64_t k = 0; k < sizes.inputs; ++k) {
        const double term = static_cast<double>(input[static_cast<std::size_t>(row * sizes.inputs + k)]) *
                            static_cast<double>(weight.numbers()[static_cast<std::size_t>(output * sizes.inputs + k)]);
        sum += term;
        magnitudes += std::abs(term);
      }
      return {sum, magnitudes};
    }

    Scalar scalar;
    Sizes sizes;
    PackedExample weight;
    Elements<T> input, bias;
  };

  template <class T>
  static void expect_product(const Packing& packing, Scalar scalar, const Sizes& sizes, Additions adds) {
    Job<T> job(packing, scalar, sizes);
    ASSERT_TRUE(has_packed_product(scalar, job.weight.packed(), sizes.rows));
    const auto count = static_cast<std::size_t>(sizes.rows * sizes.outputs);
    const Elements<T> base(random_numbers(count, 8));
    Elements<T> output = base.copy();
    ASSERT_STREQ(packed_product(nullptr, scalar, job.weight.packed(), adds.bias ? job.bias.data() : nullptr,
                                job.input.data(), sizes.rows, adds.base, output.data()),
                 "");
    for (std::size_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::int64_t>(i);
      auto [sum, magnitudes] = job.sum_of(at / sizes.outputs, at % sizes.outputs);
      if (adds.bias) sum += static_cast<double>(job.bias[i % static_cast<std::size_t>(sizes.outputs)]);
      if (adds.base) sum += static_cast<double>(base[i]);
      ASSERT_NEAR(static_cast<double>(output[i]), sum, tolerance<T>(magnitudes, sum))
          << i << " of " << sizes.rows << " rows";
    }
  }

  template <class T>
  static void expect_gated_product(const Packing& packing, Scalar scalar, const Sizes& sizes, bool biased) {
    Job<T> job(packing, scalar, sizes);
    ASSERT_TRUE(has_packed_gated_product(scalar, job.weight.packed(), sizes.rows));
    const std::int64_t width = sizes.outputs / 2;
    Elements<T> output(static_cast<std::size_t>(sizes.rows * width));
    ASSERT_STREQ(packed_gated_product(nullptr, scalar, job.weight.packed(), biased ? job.bias.data() : nullptr,
                                      job.input.data(), sizes.rows, output.data()),
                 "");
    for (std::int64_t row = 0; row < sizes.rows; ++row)
      for (std::int64_t at = 0; at < width; ++at) {
        auto [gate, gate_magnitudes] = job.sum_of(row, at);
        auto [up, up_magnitudes] = job.sum_of(row, width + at);
        if (biased) {
          gate += static_cast<double>(job.bias[static_cast<std::size_t>(at)]);
          up += static_cast<double>(job.bias[static_cast<std::size_t>(width + at)]);
        }
        const double wanted = gate / (1 + std::exp(-gate)) * up;
        const double found = static_cast<double>(output[static_cast<std::size_t>(row * width + at)]);
        // Gate, what it lets through, the activated gate and the product are rounded; a gate's slope is below 1.1.
        const double off = 1.1 * tolerance<T>(gate_magnitudes, gate) * std::abs(up) +
                           tolerance<T>(up_magnitudes, up) * std::abs(gate) + 2 * tolerance<T>(0, wanted);
        ASSERT_NEAR(found, wanted, off) << row << ", " << at;
      }
  }
};

TEST_P(PackedProducts, AreTheSumsOfTheNumbersForOneToEightRows) {
  for (std::int64_t rows = 1; rows <= 8; ++rows) {
    expect_product<__nv_bfloat16>(GetParam(), Scalar::bfloat16, {rows, 40, 192}, {});
    expect_product<__half>(GetParam(), Scalar::float16, {rows, 33, 128}, {});
  }
}

// A row with a single one in it gives a column of the weight.
TEST_P(PackedProducts, MultiplyEachInputByItsOwnNumber) {
  constexpr std::int64_t rows = 8, outputs = 50, inputs = 256;
  const PackedExample weight(GetParam(), Scalar::float32, outputs, inputs);
  for (std::int64_t first = 0; first < inputs; first += rows) {
    std::vector<float> ones(std::size_t{rows * inputs});
    for (std::int64_t row = 0; row < rows; ++row) ones[static_cast<std::size_t>(row * inputs + first + row)] = 1;
    Elements<__nv_bfloat16> input(ones), output(std::size_t{rows * outputs});
    packed_product(nullptr, Scalar::bfloat16, weight.packed(), nullptr, input.data(), rows, false, output.data());
    for (std::int64_t i = 0; i < rows * outputs; ++i) {
      const double number = weight.numbers()[static_cast<std::size_t>(i % outputs * inputs + first + i / outputs)];
      ASSERT_NEAR(output[static_cast<std::size_t>(i)], number, tolerance<__nv_bfloat16>(std::abs(number), number));
    }
  }
}

TEST_P(PackedProducts, TakeABiasAndWhatIsThereAlready) {
  for (const bool bias : {false, true})
    for (const bool base : {false, true})
      for (const std::int64_t rows : {1, 5}) {
        expect_product<__nv_bfloat16>(GetParam(), Scalar::bfloat16, {rows, 48, 64}, {bias, base});
        expect_product<__half>(GetParam(), Scalar::float16, {rows, 7, 64}, {bias, base});
      }
}

// Tiles of 32 outputs, panels of 16: whole ones, parts, one alone; one chunk of 64 inputs, and more than all warps
// have.
TEST_P(PackedProducts, HaveAnyNumberOfOutputsAndChunks) {
  for (const auto& [outputs, inputs] : {std::pair<std::int64_t, std::int64_t>{1, 64}, {16, 64}, {17, 320}, {32, 1216},
                                        {65, 64}, {130, 128}})
    expect_product<__nv_bfloat16>(GetParam(), Scalar::bfloat16, {3, outputs, inputs}, {true, true});
}

TEST_P(PackedProducts, AreSharedByAsManyWarpsAsTheChipHasRoomFor) {
  for (const int multiprocessors : {1, 2, 64}) {
    Threads::current().multiprocessors = multiprocessors;
    expect_product<__nv_bfloat16>(GetParam(), Scalar::bfloat16, {2, 200, 832}, {});
  }
}

TEST_P(PackedProducts, OfMoreRowsTakeThemInTilesOfEight) {
  for (const std::int64_t rows : {9, 16, 21, 32, 33, 64})
    expect_product<__nv_bfloat16>(GetParam(), Scalar::bfloat16, {rows, 48, 128}, {true, true});
  expect_product<__half>(GetParam(), Scalar::float16, {50, 20, 128}, {true, false});
}

TEST_P(PackedProducts, TheOrderOfThreadsChangesNoBit) {
  Job<__nv_bfloat16> job(GetParam(), Scalar::bfloat16, {4, 70, 704});
  std::vector<Elements<__nv_bfloat16>> found;
  for (const Order order : {Order::ascending, Order::descending}) {
    Threads::current().order = order;
    Elements<__nv_bfloat16>& output = found.emplace_back(std::size_t{4 * 70});
    packed_product(nullptr, job.scalar, job.weight.packed(), nullptr, job.input.data(), 4, false, output.data());
  }
  for (std::size_t i = 0; i < 4 * 70; ++i) ASSERT_EQ(found[0][i], found[1][i]);
}

TEST_P(PackedProducts, ARowDoesNotDependOnTheRowsBesideIt) {
  Job<__nv_bfloat16> job(GetParam(), Scalar::bfloat16, {8, 40, 256});
  Elements<__nv_bfloat16> all(std::size_t{8 * 40}), alone(std::size_t{40});
  packed_product(nullptr, job.scalar, job.weight.packed(), nullptr, job.input.data(), 8, false, all.data());
  packed_product(nullptr, job.scalar, job.weight.packed(), nullptr, job.input.data() + 5 * 256, 1, false, alone.data());
  for (std::size_t i = 0; i < 40; ++i) ASSERT_EQ(all[5 * 40 + i], alone[i]);
}

TEST_P(PackedProducts, OfGatesAreActivatedAndMultiplied) {
  for (const std::int64_t rows : {1, 2, 7, 8, 19, 40})
    for (const bool biased : {false, true})
      expect_gated_product<__nv_bfloat16>(GetParam(), Scalar::bfloat16, {rows, 96, 128}, biased);
  expect_gated_product<__half>(GetParam(), Scalar::float16, {3, 32, 192}, true);
}

TEST_P(PackedProducts, OfOtherFormsAreLeftToOthers) {
  const PackedExample even(GetParam(), Scalar::bfloat16, 48, 128), odd(GetParam(), Scalar::bfloat16, 48, 72);
  EXPECT_TRUE(has_packed_product(Scalar::bfloat16, even.packed(), most_packed_rows));
  EXPECT_FALSE(has_packed_product(Scalar::bfloat16, even.packed(), most_packed_rows + 1));
  EXPECT_FALSE(has_packed_product(Scalar::bfloat16, even.packed(), 0));
  EXPECT_FALSE(has_packed_product(Scalar::float32, even.packed(), 1));
  EXPECT_FALSE(has_packed_product(Scalar::bfloat16, odd.packed(), 1));
  EXPECT_FALSE(has_packed_gated_product(Scalar::bfloat16, even.packed(), 1));  // 24 gates: one panel and a half
}

INSTANTIATE_TEST_SUITE_P(Packings, PackedProducts,
                         testing::Values(Packing{"int8", kernels::Code::int8, 0},
                                         Packing{"nf4", kernels::Code::nf4, 64},
                                         Packing{"fp4", kernels::Code::fp4, 64}),
                         [](const auto& named) { return std::string(named.param.name); });

TEST(PackedProductForms, RunsThatCrossAChunkAreLeftToOthers) {
  const PackedExample longer({"", kernels::Code::nf4, 128}, Scalar::bfloat16, 16, 128);
  EXPECT_TRUE(has_packed_product(Scalar::bfloat16, longer.packed(), 1));
  const PackedExample shorter({"", kernels::Code::nf4, 32}, Scalar::bfloat16, 16, 128);
  EXPECT_FALSE(has_packed_product(Scalar::bfloat16, shorter.packed(), 1));
  const PackedExample crossing({"", kernels::Code::nf4, 256}, Scalar::bfloat16, 16, 128);
  EXPECT_FALSE(has_packed_product(Scalar::bfloat16, crossing.packed(), 1));
}

}  // namespace
}  // namespace muster::cuda
