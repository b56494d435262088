#include "kernels/linear.hpp"

#include <gtest/gtest.h>

#include "kernels/row_sums.hpp"
#include "numbers.hpp"

namespace muster::kernels {
namespace {

constexpr Scalar scalars[] = {Scalar::float32, Scalar::bfloat16, Scalar::float16};

// A packed matrix with its memory and what was packed.
struct Weight {
  Numbers plain;
  std::vector<std::byte> memory;
  PackedMatrix packed;

  Weight(ThreadTeam& team, std::int64_t outputs, std::int64_t inputs, Scalar scalar, unsigned seed = 1)
      : plain(Numbers::drawn(scalar, outputs * inputs, seed, 0.1F)),
        memory(PackedMatrix::bytes_needed(outputs, inputs, scalar), std::byte{0xFF}),
        packed(memory.data(), outputs, inputs, scalar) {
    packed.pack_rows(team, 0, outputs, plain.data(), scalar);
  }
};

Numbers run_linear(ThreadTeam& team, const PackedMatrix& weight, const Numbers& input, std::int64_t first,
                   std::int64_t rows, const float* bias = nullptr) {
  Numbers output(input.scalar(), rows * weight.outputs());
  linear(team, weight, input.at(first * weight.inputs()), input.scalar(), rows, bias, output.data());
  return output;
}

std::vector<double> expected_linear(const Numbers& input, std::int64_t rows, const Numbers& weight,
                                    std::int64_t outputs, std::int64_t inputs, const Numbers& bias) {
  std::vector<double> result;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t n = 0; n < outputs; ++n) {
      double sum = bias[n];
      for (std::int64_t k = 0; k < inputs; ++k) sum += input[r * inputs + k] * weight[n * inputs + k];
      result.push_back(sum);
    }
  }
  return result;
}

TEST(Linear, ARowHasTheSameBitsAmongAnyNumberOfRowsInAnyPlaceOnAnyNumberOfThreads) {
  constexpr std::int64_t most = 257, outputs = 83, inputs = 531;
  ThreadTeam one(1), two(2);
  for (const Scalar scalar : scalars) {
    const Weight weight(one, outputs, inputs, scalar);
    const Numbers input = Numbers::drawn(scalar, most * inputs, 2);
    const Numbers all = run_linear(one, weight.packed, input, 0, most);
    for (std::int64_t rows = 1; rows <= most; ++rows) {
      const std::int64_t first = rows * 7 % (most - rows + 1);
      for (ThreadTeam* team : {&one, &two}) {
        const Numbers some = run_linear(*team, weight.packed, input, first, rows);
        ASSERT_TRUE(some.same_bits(0, all, first * outputs, rows * outputs)) << rows << " rows from " << first;
      }
    }
  }
}

TEST(Linear, ARowOfALargeProductIsTheRowAlone) {
  constexpr std::int64_t rows = 2500, outputs = 40, inputs = 300;  // several row blocks, packed in two goes
  ThreadTeam team(2);
  const Weight weight(team, outputs, inputs, Scalar::float32);
  const Numbers input = Numbers::drawn(Scalar::float32, rows * inputs, 2);
  const Numbers all = run_linear(team, weight.packed, input, 0, rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    ASSERT_TRUE(run_linear(team, weight.packed, input, row, 1).same_bits(0, all, row * outputs, outputs)) << row;
  }
}

TEST(Linear, AColumnHasTheSameBitsWhateverItsNeighboursAre) {
  constexpr std::int64_t rows = 9, outputs = 70, inputs = 300;
  ThreadTeam team(2);
  const Weight weight(team, outputs, inputs, Scalar::float32);
  const Numbers input = Numbers::drawn(Scalar::float32, rows * inputs, 2);
  const Numbers all = run_linear(team, weight.packed, input, 0, rows);
  for (std::int64_t first = 0; first < outputs; first += 9) {  // as a rank that holds some of the rows would
    const std::int64_t count = std::min<std::int64_t>(11, outputs - first);
    Numbers memory(Scalar::float32, (count + 15) / 16 * 16 * inputs);
    PackedMatrix part(memory.data(), count, inputs, Scalar::float32);
    part.pack_rows(team, 0, count, weight.plain.at(first * inputs), Scalar::float32);
    const Numbers some = run_linear(team, part, input, 0, rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      ASSERT_TRUE(some.same_bits(row * count, all, row * outputs + first, count));
    }
  }
}

TEST(Linear, EveryVectorSetGivesTheSameBits) {
  ThreadTeam portable(1, VectorSet::portable);
  for (const Scalar scalar : scalars) {
    const Weight weight(portable, 37, 290, scalar);
    const Numbers input = Numbers::drawn(scalar, 30 * 290, 2);
    const Numbers gradient = Numbers::drawn(scalar, 30 * 37, 3);
    const auto everything = [&](ThreadTeam& team) {
      Numbers output = run_linear(team, weight.packed, input, 0, 30), back(scalar, 30 * 290);
      Numbers weight_gradient(Scalar::float32, 37 * 290), bias_gradient(Scalar::float32, 37);
      linear_input_gradient(team, weight.packed, gradient.data(), scalar, 30, back.data());
      const std::int64_t rows = 30;
      linear_weight_gradient(team, gradient.data(), input.data(), scalar, {&rows, 1}, 37, 290,
                             {.values = weight_gradient.floats()});
      add_rows(team, gradient.data(), scalar, 30, 37, {.values = bias_gradient.floats()});
      return std::vector{output, back, weight_gradient, bias_gradient};
    };
    const auto expected = everything(portable);
    for (const VectorSet set : available_sets()) {
      ThreadTeam team(2, set);
      EXPECT_TRUE(everything(team) == expected) << name(set);
    }
  }
}

TEST(Linear, IsTheProductForOddShapes) {
  ThreadTeam team(2);
  for (const std::int64_t outputs : {1, 15, 16, 31, 33, 130}) {
    for (const std::int64_t inputs : {1, 3, 17, 255, 256, 257, 700}) {
      for (const std::int64_t rows : {1, 2, 3, 5, 7, 13, 20}) {
        const Weight weight(team, outputs, inputs, Scalar::float32);
        const Numbers input = Numbers::drawn(Scalar::float32, rows * inputs, 2);
        const Numbers bias = Numbers::drawn(Scalar::float32, outputs, 3);
        const auto expected = expected_linear(input, rows, weight.plain, outputs, inputs, bias);
        const Numbers seen = run_linear(team, weight.packed, input, 0, rows, bias.floats());
        ASSERT_LT(relative_error(seen, expected), 2e-6) << outputs << "×" << inputs << ", rows " << rows;
      }
    }
  }
}

TEST(Linear, IsTheProductRoundedOnceForNarrowScalars) {
  ThreadTeam team(2);
  for (const Scalar scalar : {Scalar::bfloat16, Scalar::float16}) {
    for (const std::int64_t rows : {1, 4, 40}) {
      const Weight weight(team, 33, 400, scalar);
      const Numbers input = Numbers::drawn(scalar, rows * 400, 2);
      const Numbers bias = Numbers::drawn(Scalar::float32, 33, 3);
      const auto expected = expected_linear(input, rows, weight.plain, 33, 400, bias);
      const Numbers seen = run_linear(team, weight.packed, input, 0, rows, bias.floats());
      for (std::int64_t i = 0; i < seen.count(); ++i) {
        const double right = expected[static_cast<std::size_t>(i)];
        ASSERT_NEAR(seen[i], right, std::abs(right) * rounding_of(scalar) + 1e-5);
      }
    }
  }
}

TEST(Linear, KeepsDenormalsInfinitiesAndLargeNumbers) {
  ThreadTeam team(1);
  Weight weight(team, 2, 2, Scalar::float32);
  const float rows[] = {1.0F, 0.0F, 0.5F, 0.5F};
  weight.packed.pack_rows(team, 0, 2, rows, Scalar::float32);
  Numbers input(Scalar::float32, 4);
  for (const float value : {0x1p-140F, 3e38F, -3e38F, 1e-30F}) {
    input.set(0, value);
    input.set(1, value);
    const Numbers output = run_linear(team, weight.packed, input, 0, 1);
    EXPECT_EQ(output[0], value);
    EXPECT_EQ(output[1], value);
  }
}

TEST(PackedMatrix, GivesBackWhatWasPackedInAnyPieces) {
  ThreadTeam team(2);
  constexpr std::int64_t outputs = 75, inputs = 37;
  for (const Scalar from : scalars) {
    for (const Scalar scalar : scalars) {
      const Numbers plain = Numbers::drawn(from, outputs * inputs, 4);
      Numbers expected(scalar, outputs * inputs);
      for (std::int64_t i = 0; i < plain.count(); ++i) expected.set(i, static_cast<float>(plain[i]));
      std::vector<std::byte> memory(PackedMatrix::bytes_needed(outputs, inputs, scalar), std::byte{0xFF});
      std::vector<std::byte> whole = memory;
      PackedMatrix pieces(memory.data(), outputs, inputs, scalar);
      PackedMatrix(whole.data(), outputs, inputs, scalar).pack_rows(team, 0, outputs, plain.data(), from);
      for (std::int64_t first = 0; first < outputs; first += 20) {
        const std::int64_t count = std::min<std::int64_t>(20, outputs - first);
        pieces.pack_rows(team, first, count, plain.at(first * inputs), from);
      }
      EXPECT_EQ(memory, whole);
      Numbers back(scalar, outputs * inputs), rows(scalar, outputs * inputs);
      pieces.unpack(team, back.data(), scalar);
      for (std::int64_t row = 0; row < outputs; ++row) pieces.copy_row(row, rows.at(row * inputs), scalar);
      EXPECT_TRUE(back == expected && rows == expected);
    }
  }
}

TEST(PackedMatrix, PacksTransposedStorage) {
  ThreadTeam team(1);
  constexpr std::int64_t outputs = 45, inputs = 21, stride = 50;  // three matrices side by side, as GPT-2 stores them
  const Numbers stored = Numbers::drawn(Scalar::bfloat16, inputs * stride, 4);
  Numbers memory(Scalar::float32, 48 * inputs), back(Scalar::float32, outputs * inputs);
  PackedMatrix matrix(memory.data(), outputs, inputs, Scalar::float32);
  matrix.pack_columns(team, 0, 30, stored.at(5), stride, Scalar::bfloat16);
  matrix.pack_columns(team, 30, 15, stored.at(35), stride, Scalar::bfloat16);
  matrix.unpack(team, back.data(), Scalar::float32);
  for (std::int64_t n = 0; n < outputs; ++n) {
    for (std::int64_t k = 0; k < inputs; ++k) ASSERT_EQ(back[n * inputs + k], stored[k * stride + 5 + n]);
  }
}

TEST(LinearGradient, OfTheInputIsTheProductWithTheWeightWhateverTheRows) {
  ThreadTeam one(1), two(2);
  constexpr std::int64_t outputs = 531, inputs = 75, most = 70;
  for (const Scalar scalar : scalars) {
    const Weight weight(one, outputs, inputs, scalar);
    const Numbers gradient = Numbers::drawn(scalar, most * outputs, 5);
    Numbers all(scalar, most * inputs);
    linear_input_gradient(one, weight.packed, gradient.data(), scalar, most, all.data());
    std::vector<double> expected;
    for (std::int64_t r = 0; r < most; ++r) {
      for (std::int64_t k = 0; k < inputs; ++k) {
        double sum = 0;
        for (std::int64_t n = 0; n < outputs; ++n) sum += gradient[r * outputs + n] * weight.plain[n * inputs + k];
        expected.push_back(sum);
      }
    }
    EXPECT_LT(relative_error(all, expected), 2e-6 + rounding_of(scalar));
    for (std::int64_t rows = 1; rows <= most; rows += 3) {
      Numbers some(scalar, rows * inputs);
      linear_input_gradient(two, weight.packed, gradient.at((most - rows) * outputs), scalar, rows, some.data());
      ASSERT_TRUE(some.same_bits(0, all, (most - rows) * inputs, rows * inputs)) << rows;
    }
  }
}

TEST(LinearGradient, OfManyRowsHasTheBitsOfFew) {
  ThreadTeam team(2);
  constexpr std::int64_t outputs = 275, inputs = 53, rows = 500, few = 100;  // several row blocks, and one
  const Weight weight(team, outputs, inputs, Scalar::float32);
  const Numbers gradient = Numbers::drawn(Scalar::float32, rows * outputs, 5);
  const Numbers input = Numbers::drawn(Scalar::float32, rows * inputs, 6);
  Numbers all(Scalar::float32, rows * inputs), some(Scalar::float32, few * inputs);
  linear_input_gradient(team, weight.packed, gradient.data(), Scalar::float32, rows, all.data());
  for (std::int64_t first = 0; first < rows; first += few) {
    linear_input_gradient(team, weight.packed, gradient.at(first * outputs), Scalar::float32, few, some.data());
    ASSERT_TRUE(some.same_bits(0, all, first * inputs, few * inputs)) << first;
  }
  // The weight's: its rows are the outputs.
  Numbers whole = Numbers::filled(Scalar::float32, outputs * inputs, 0.0F), part = whole;
  linear_weight_gradient(team, gradient.data(), input.data(), Scalar::float32, {&rows, 1}, outputs, inputs,
                         {.values = whole.floats()});
  Numbers narrow_gradient(Scalar::float32, rows * few);
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(gradient.floats() + r * outputs, few, narrow_gradient.floats() + r * few);
  linear_weight_gradient(team, narrow_gradient.data(), input.data(), Scalar::float32, {&rows, 1}, few, inputs,
                         {.values = part.floats()});
  EXPECT_TRUE(part.same_bits(0, whole, 0, few * inputs));
}

TEST(Linear, AddsTheProductToWhatIsGiven) {
  ThreadTeam team(2);
  constexpr std::int64_t rows = 300;
  for (const std::int64_t outputs : {35, 64}) {
    for (const std::int64_t inputs : {40, 600}) {
      const Weight weight(team, outputs, inputs, Scalar::float32);
      const Numbers input = Numbers::drawn(Scalar::float32, rows * inputs, 2);
      const Numbers bias = Numbers::drawn(Scalar::float32, outputs, 3);
      Numbers base = Numbers::drawn(Scalar::float32, rows * outputs, 4), sum(Scalar::float32, rows * outputs);
      const Numbers product = run_linear(team, weight.packed, input, 0, rows, bias.floats());
      linear(team, weight.packed, input.data(), Scalar::float32, rows, bias.floats(), sum.data(), base.floats());
      for (std::int64_t i = 0; i < rows * outputs; ++i)
        ASSERT_EQ(sum[i], static_cast<float>(base[i]) + static_cast<float>(product[i]));
      linear(team, weight.packed, input.data(), Scalar::float32, rows, bias.floats(), base.data(), base.floats());
      ASSERT_TRUE(base == sum);
    }
  }
}

TEST(LinearGradient, OfWeightAndBiasSumOverTheRowsAndAddToWhatIsThere) {
  ThreadTeam one(1), two(2);
  for (const std::int64_t rows : {1, 7, 300, 600}) {
    constexpr std::int64_t outputs = 61, inputs = 37;
    const Numbers gradient = Numbers::drawn(Scalar::float32, rows * outputs, 5);
    const Numbers input = Numbers::drawn(Scalar::float32, rows * inputs, 6);
    std::vector<double> expected(outputs * inputs), expected_bias(outputs);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t n = 0; n < outputs; ++n) {
        expected_bias[static_cast<std::size_t>(n)] += gradient[r * outputs + n];
        for (std::int64_t k = 0; k < inputs; ++k) {
          expected[static_cast<std::size_t>(n * inputs + k)] += gradient[r * outputs + n] * input[r * inputs + k];
        }
      }
    }
    const auto run = [&](ThreadTeam& team, float before) {
      Numbers weight_gradient = Numbers::filled(Scalar::float32, outputs * inputs, before);
      Numbers bias_gradient = Numbers::filled(Scalar::float32, outputs, before);
      linear_weight_gradient(team, gradient.data(), input.data(), Scalar::float32, {&rows, 1}, outputs, inputs,
                             {.values = weight_gradient.floats()});
      add_rows(team, gradient.data(), Scalar::float32, rows, outputs, {.values = bias_gradient.floats()});
      return std::pair(weight_gradient, bias_gradient);
    };
    const auto alone = run(one, 0.0F);
    EXPECT_LT(relative_error(alone.first, expected), 2e-6);
    EXPECT_LT(relative_error(alone.second, expected_bias), 2e-6);
    EXPECT_TRUE(run(two, 0.0F) == alone);
    const auto added = run(two, 9.0F);
    for (std::int64_t i = 0; i < outputs * inputs; ++i) {
      ASSERT_EQ(added.first[i], 9.0F + static_cast<float>(alone.first[i]));
    }
    for (std::int64_t i = 0; i < outputs; ++i) {
      ASSERT_EQ(added.second[i], 9.0F + static_cast<float>(alone.second[i]));
    }
  }
}

}  // namespace
}  // namespace muster::kernels
