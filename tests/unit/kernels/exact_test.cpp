#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/linear.hpp"
#include "kernels/normalize.hpp"
#include "kernels/row_sums.hpp"
#include "numbers.hpp"

namespace muster::kernels {
namespace {

using Multiples = std::vector<std::int64_t>;

struct Exact {
  Multiples multiples;
  std::int64_t overflow = 0;

  explicit Exact(std::int64_t count) : multiples(static_cast<std::size_t>(count)) {}
  Sum sum() { return {.multiples = multiples.data(), .overflow = &overflow}; }
  bool operator==(const Exact&) const = default;
};

// Rounded to the nearest multiple of 2^-44, to even on ties.
std::int64_t rounded(double term) { return static_cast<std::int64_t>(std::nearbyint(term * 0x1p44)); }

// Sequences of a weight's gradient.
struct Pass {
  std::vector<std::int64_t> sequences;
  std::int64_t outputs, inputs;
  Numbers gradient, input;

  Pass(std::vector<std::int64_t> lengths, std::int64_t output_count, std::int64_t input_count,
       Scalar scalar = Scalar::float32)
      : sequences(std::move(lengths)), outputs(output_count), inputs(input_count) {
    const std::int64_t rows = std::accumulate(sequences.begin(), sequences.end(), std::int64_t{0});
    gradient = Numbers::drawn(scalar, rows * outputs, 1, 0.01F);
    input = Numbers::drawn(scalar, rows * inputs, 2);
  }
  void add(ThreadTeam& team, const Sum& sum, std::size_t first, std::size_t count) const {
    const std::int64_t row =
        std::accumulate(sequences.begin(), sequences.begin() + static_cast<std::ptrdiff_t>(first), std::int64_t{0});
    linear_weight_gradient(team, gradient.at(row * outputs), input.at(row * inputs), gradient.scalar(),
                           std::span(sequences).subspan(first, count), outputs, inputs, sum);
  }
  Exact whole(ThreadTeam& team) const {
    Exact exact(outputs * inputs);
    add(team, exact.sum(), 0, sequences.size());
    return exact;
  }
};

const std::vector<std::int64_t> mixed_lengths{10, 1, 0, 12, 256, 3, 300, 9, 9, 600, 7, 255, 2, 257};

TEST(ExactProduct, ATermIsASequencesFloat32ChainRoundedOnce) {
  for (const auto& [outputs, inputs] : {std::pair<std::int64_t, std::int64_t>{37, 50}, {1, 1}, {250, 70}, {6, 130}}) {
    const Pass pass(mixed_lengths, outputs, inputs);
    ThreadTeam team(2);
    Exact expected(outputs * inputs);
    for (std::size_t i = 0; i < mixed_lengths.size(); ++i) {
      Numbers chain(Scalar::float32, outputs * inputs);
      pass.add(team, {.values = chain.floats()}, i, 1);
      for (std::int64_t place = 0; place < chain.count(); ++place)
        expected.multiples[static_cast<std::size_t>(place)] += rounded(chain[place]);
    }
    EXPECT_TRUE(pass.whole(team) == expected) << outputs << "×" << inputs;
  }
}

TEST(ExactProduct, HasTheSameBitsInAnyOrderAnySplitOnAnyThreadsAndVectorSet) {
  for (const Scalar scalar : {Scalar::float32, Scalar::bfloat16, Scalar::float16}) {
    const Pass pass(mixed_lengths, 75, 83, scalar);
    ThreadTeam portable(1, VectorSet::portable);
    const Exact expected = pass.whole(portable);
    for (const VectorSet set : available_sets()) {
      for (const int threads : {1, 2, 3}) {
        ThreadTeam team(threads, set);
        EXPECT_TRUE(pass.whole(team) == expected) << name(set);
        Exact backwards(75 * 83), pairs(75 * 83);
        for (std::size_t i = mixed_lengths.size(); i-- > 0;) pass.add(team, backwards.sum(), i, 1);
        for (std::size_t i = 0; i < mixed_lengths.size(); i += 2) pass.add(team, pairs.sum(), i, 2);
        EXPECT_TRUE(backwards == expected && pairs == expected) << name(set);
      }
    }
  }
}

TEST(ExactProduct, RoundsTiesToEvenAndLargeTermsToTheirLastBit) {
  // In multiples of 2^-44: halves, what float32 has of small and of large numbers, both sides of the quick limit.
  const std::vector<float> terms{0x1p-45F,    0x1.8p-44F,      0x1.4p-43F,      -0x1p-45F, -0x1.8p-44F, 0x1p-46F,
                                 0x1.8p-45F,  0x1.fffffep-46F, 127.5F,          128.0F,    -127.99999F, 65535.996F,
                                 -65535.996F, 1e-30F,          0x1.000002p-21F, -0.0F,     0x1p-149F};
  const auto columns = static_cast<std::int64_t>(terms.size());
  Numbers values(Scalar::float32, columns), one = Numbers::filled(Scalar::float32, 1, 1.0F);
  for (std::int64_t i = 0; i < columns; ++i) values.set(i, terms[static_cast<std::size_t>(i)]);
  for (const VectorSet set : available_sets()) {
    ThreadTeam team(1, set);
    // Once with large terms in each tile, once with small ones alone.
    for (const std::int64_t count : {columns, std::int64_t{8}}) {
      Exact product(count), rows(count);
      const std::int64_t row = 1;
      linear_weight_gradient(team, one.data(), values.data(), Scalar::float32, {&row, 1}, 1, count, product.sum());
      add_rows(team, values.data(), Scalar::float32, 1, count, rows.sum());
      for (std::int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(product.multiples[static_cast<std::size_t>(i)], rounded(values[i])) << name(set) << " " << i;
      }
      EXPECT_TRUE(rows == product);
      EXPECT_EQ(product.overflow, 0);
    }
  }
}

TEST(ExactProduct, WhatDoesNotFitIsCountedAndLeavesTheSumAlone) {
  const float infinity = std::numeric_limits<float>::infinity();
  constexpr std::int64_t columns = 21;
  Numbers values = Numbers::filled(Scalar::float32, 2 * columns, 0.5F);
  values.set(3, 65536.0F);
  values.set(4, -65536.0F);
  values.set(17, infinity);
  values.set(20, std::nanf(""));
  values.set(columns + 20, -infinity);
  const Numbers ones = Numbers::filled(Scalar::float32, 2, 1.0F);
  const std::int64_t sequences[] = {1, 1}, indices[] = {0, 0};
  for (const VectorSet set : available_sets()) {
    ThreadTeam team(2, set);
    Exact product(columns), rows(columns), scattered(columns);
    linear_weight_gradient(team, ones.data(), values.data(), Scalar::float32, sequences, 1, columns, product.sum());
    add_rows(team, values.data(), Scalar::float32, 2, columns, rows.sum());
    add_rows_at(team, values.data(), Scalar::float32, indices, 2, columns, scattered.sum());
    EXPECT_EQ(product.overflow, 5);
    EXPECT_EQ(product.multiples[3], rounded(0.5));
    EXPECT_EQ(product.multiples[0], rounded(1.0));
    EXPECT_EQ(product.multiples[20], 0);
    EXPECT_TRUE(rows == product && scattered == product) << name(set);
  }
}

TEST(ExactRows, OfNormsTakeEachRowAsATermWhateverTheOrder) {
  constexpr std::int64_t rows = 70, columns = 85;
  const Numbers input = Numbers::drawn(Scalar::float32, rows * columns, 1),
                weight = Numbers::drawn(Scalar::float32, columns, 2);
  const Numbers gradient = Numbers::drawn(Scalar::float32, rows * columns, 3);
  const auto run = [&](ThreadTeam& team, bool centered, const std::vector<std::int64_t>& firsts) {
    Exact weights(columns), biases(columns);
    Numbers back(Scalar::float32, rows * columns);
    for (std::size_t i = 0; i < firsts.size(); ++i) {
      const std::int64_t first = firsts[i], count = 35;
      const Normalization part{input.at(first * columns), Scalar::float32, count, columns,
                               weight.floats(),           nullptr,         1e-5F};
      if (centered)
        layer_norm_gradient(team, part, gradient.at(first * columns), back.at(first * columns), weights.sum(),
                            biases.sum());
      else
        rms_norm_gradient(team, part, gradient.at(first * columns), back.at(first * columns), weights.sum());
    }
    return std::pair(weights, biases);
  };
  for (const bool centered : {false, true}) {
    ThreadTeam portable(1, VectorSet::portable);
    const auto expected = run(portable, centered, {0, 35});
    for (const VectorSet set : available_sets()) {
      ThreadTeam team(2, set);
      EXPECT_TRUE(run(team, centered, {35, 0}) == expected) << name(set);
    }
    Numbers floats(Scalar::float32, columns), unused(Scalar::float32, columns), back(Scalar::float32, rows * columns);
    const Normalization all{input.data(), Scalar::float32, rows, columns, weight.floats(), nullptr, 1e-5F};
    if (centered)
      layer_norm_gradient(portable, all, gradient.data(), back.data(), {.values = floats.floats()},
                          {.values = unused.floats()});
    else
      rms_norm_gradient(portable, all, gradient.data(), back.data(), {.values = floats.floats()});
    for (std::int64_t i = 0; i < columns; ++i)
      EXPECT_NEAR(static_cast<double>(expected.first.multiples[static_cast<std::size_t>(i)]) * 0x1p-44, floats[i],
                  2e-5);
  }
}

TEST(RowSums, AtIndicesTakeRowsInOrderAlsoWhereSeveralHaveOneIndex) {
  constexpr std::int64_t rows = 40, columns = 150, places = 7;
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < rows; ++i) indices.push_back(i * i % places);
  for (const Scalar scalar : {Scalar::float32, Scalar::bfloat16}) {
    const Numbers values = Numbers::drawn(scalar, rows * columns, 4);
    Numbers expected = Numbers::filled(Scalar::float32, places * columns, 2.0F);
    Exact exact(places * columns);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < columns; ++i) {
        const std::int64_t place = indices[static_cast<std::size_t>(row)] * columns + i;
        expected.floats()[place] += static_cast<float>(values[row * columns + i]);
        exact.multiples[static_cast<std::size_t>(place)] += rounded(values[row * columns + i]);
      }
    }
    for (const VectorSet set : available_sets()) {
      for (const int threads : {1, 3}) {
        ThreadTeam team(threads, set);
        Numbers seen = Numbers::filled(Scalar::float32, places * columns, 2.0F);
        Exact seen_exactly(places * columns);
        add_rows_at(team, values.data(), scalar, indices.data(), rows, columns, {.values = seen.floats()});
        add_rows_at(team, values.data(), scalar, indices.data(), rows, columns, seen_exactly.sum());
        EXPECT_TRUE(seen == expected) << name(set);
        EXPECT_TRUE(seen_exactly == exact) << name(set);
      }
    }
  }
}

}  // namespace
}  // namespace muster::kernels
