#include "kernels/coded/coded_matrix.hpp"

#include <gtest/gtest.h>

#include "kernels/linear.hpp"
#include "kernels/coded/dynamic_map.hpp"
#include "kernels/coded/scale_rounding.hpp"
#include "numbers.hpp"

namespace muster::kernels {
namespace {

constexpr Scalar scalars[] = {Scalar::float32, Scalar::bfloat16, Scalar::float16};

std::vector<CodedForm> forms(Scalar rounded = Scalar::float32) {
  return {{Code::int8, 64, rounded},  {Code::nf4, 64, rounded},  {Code::fp4, 64, rounded},
          {Code::nf4, 32, rounded},   {Code::nf4, 256, rounded}, {Code::fp4, 512, rounded},
          {Code::nf4, 4096, rounded}};
}

std::string name(const CodedForm& form, std::int64_t outputs, std::int64_t inputs) {
  return "code " + std::to_string(static_cast<int>(form.code)) + ", run " + std::to_string(form.run) + ", " +
         std::to_string(outputs) + "x" + std::to_string(inputs);
}

// A matrix of codes with its memory, what was coded, and a plain matrix with the numbers that it stands for.
struct Coded {
  Numbers original;
  std::vector<std::byte> memory;
  CodedMatrix matrix;
  Numbers values;
  std::vector<std::byte> plain_memory;
  PackedMatrix plain;

  Coded(ThreadTeam& team, std::int64_t outputs, std::int64_t inputs, const CodedForm& form,
        Scalar from = Scalar::float32)
      : original(Numbers::drawn(from, outputs * inputs, 1, 0.1F)),
        memory(CodedMatrix::bytes_needed(outputs, inputs, form), std::byte{0xFF}),
        matrix(memory.data(), outputs, inputs, form),
        values(form.rounded, outputs * inputs),
        plain_memory(PackedMatrix::bytes_needed(outputs, inputs, form.rounded), std::byte{0xFF}),
        plain(plain_memory.data(), outputs, inputs, form.rounded) {
    matrix.code_rows(team, 0, outputs, original.data(), from);
    for (std::int64_t row = 0; row < outputs; ++row) matrix.copy_row(row, values.at(row * inputs), form.rounded);
    plain.pack_rows(team, 0, outputs, values.data(), form.rounded);
  }
};

template <class Matrix>
Numbers forward(ThreadTeam& team, const Matrix& weight, const Numbers& input, std::int64_t first, std::int64_t rows) {
  const Numbers bias = Numbers::drawn(Scalar::float32, weight.outputs(), 7);
  Numbers output(input.scalar(), rows * weight.outputs());
  linear(team, weight, input.at(first * weight.inputs()), input.scalar(), rows, bias.floats(), output.data());
  return output;
}

template <class Matrix>
Numbers backward(ThreadTeam& team, const Matrix& weight, const Numbers& gradient, std::int64_t rows) {
  Numbers output(gradient.scalar(), rows * weight.inputs());
  linear_input_gradient(team, weight, gradient.data(), gradient.scalar(), rows, output.data());
  return output;
}

TEST(CodedMatrix, ProductsHaveTheBitsOfAPlainMatrixWithTheSameNumbers) {
  ThreadTeam team(2);
  for (const std::int64_t outputs : {1, 16, 39, 150})
    for (const std::int64_t inputs : {1, 7, 64, 100, 256, 344, 576, 4096})
      for (const CodedForm& form : forms()) {
        const Coded weight(team, outputs, inputs, form);
        for (const std::int64_t rows : {1, 2, 3, 5, 12, 13, 40}) {
          const Numbers input = Numbers::drawn(Scalar::float32, rows * inputs, 2);
          ASSERT_TRUE(forward(team, weight.matrix, input, 0, rows) == forward(team, weight.plain, input, 0, rows))
              << name(form, outputs, inputs) << ", rows " << rows;
        }
        const Numbers gradient = Numbers::drawn(Scalar::float32, 21 * outputs, 3);
        ASSERT_TRUE(backward(team, weight.matrix, gradient, 21) == backward(team, weight.plain, gradient, 21))
            << name(form, outputs, inputs);
      }
}

TEST(CodedMatrix, NumbersAreRoundedToTheTypeThatIsComputedIn) {
  ThreadTeam team(2);
  for (const Scalar scalar : {Scalar::bfloat16, Scalar::float16})
    for (const CodedForm& form : forms(scalar))
      for (const std::int64_t inputs : {100, 320}) {
        const Coded weight(team, 37, inputs, form, scalar);
        CodedForm whole = form;
        whole.rounded = Scalar::float32;
        const Coded unrounded(team, 37, inputs, whole, scalar);
        ASSERT_TRUE(weight.values == unrounded.values.as(scalar));
        for (const std::int64_t rows : {1, 30}) {
          const Numbers input = Numbers::drawn(scalar, rows * inputs, 2);
          ASSERT_TRUE(forward(team, weight.matrix, input, 0, rows) == forward(team, weight.plain, input, 0, rows));
          const Numbers gradient = Numbers::drawn(scalar, rows * 37, 3);
          ASSERT_TRUE(backward(team, weight.matrix, gradient, rows) == backward(team, weight.plain, gradient, rows));
        }
      }
}

TEST(CodedMatrix, ARowHasTheSameBitsAmongAnyNumberOfRowsOnAnyNumberOfThreads) {
  constexpr std::int64_t most = 257, outputs = 83, inputs = 576;
  ThreadTeam one(1), two(2);
  for (const CodedForm& form : forms()) {
    const Coded weight(one, outputs, inputs, form);
    const Numbers input = Numbers::drawn(Scalar::float32, most * inputs, 2);
    const Numbers all = forward(one, weight.matrix, input, 0, most);
    for (std::int64_t rows = 1; rows <= most; rows += rows < 30 ? 1 : 19) {
      const std::int64_t first = rows * 7 % (most - rows + 1);
      for (ThreadTeam* team : {&one, &two})
        ASSERT_TRUE(
            forward(*team, weight.matrix, input, first, rows).same_bits(0, all, first * outputs, rows * outputs))
            << name(form, outputs, inputs) << ", " << rows << " rows from " << first;
    }
  }
}

TEST(CodedMatrix, EveryVectorSetCodesAndMultipliesAlike) {
  ThreadTeam portable(1, VectorSet::portable);
  for (const Scalar scalar : scalars)
    for (const CodedForm& form : forms(scalar))
      for (const std::int64_t inputs : {90, 512}) {
        const Coded expected(portable, 37, inputs, form, scalar);
        for (const VectorSet set : available_sets()) {
          ThreadTeam team(2, set);
          const Coded weight(team, 37, inputs, form, scalar);
          ASSERT_TRUE(weight.values == expected.values) << name(set) << ", " << name(form, 37, inputs);
          ASSERT_TRUE(weight.matrix.scales_of(0, 37) == expected.matrix.scales_of(0, 37)) << name(set);
          for (const std::int64_t rows : {1, 4, 20}) {
            const Numbers input = Numbers::drawn(scalar, rows * inputs, 2);
            ASSERT_TRUE(forward(team, weight.matrix, input, 0, rows) ==
                        forward(portable, expected.plain, input, 0, rows))
                << name(set) << ", " << name(form, 37, inputs) << ", rows " << rows;
            const Numbers gradient = Numbers::drawn(scalar, rows * 37, 3);
            ASSERT_TRUE(backward(team, weight.matrix, gradient, rows) ==
                        backward(portable, expected.plain, gradient, rows));
          }
        }
      }
}

TEST(CodedMatrix, RowsComeInAnyPiecesThatBeginARun) {
  ThreadTeam team(2);
  constexpr std::int64_t outputs = 75, inputs = 24;
  for (const CodedForm& form : {CodedForm{Code::int8}, CodedForm{Code::nf4, 64}, CodedForm{Code::fp4, 32}}) {
    const std::int64_t rows_of_cut = form.code == Code::int8 ? 1 : form.run / 8;
    const Coded whole(team, outputs, inputs, form);
    std::vector<std::byte> memory(whole.memory.size(), std::byte{0xFF});
    CodedMatrix pieces(memory.data(), outputs, inputs, form);
    for (std::int64_t last = outputs; last > 0;) {
      const std::int64_t first = (last - 1) / (2 * rows_of_cut) * 2 * rows_of_cut;
      pieces.code_rows(team, first, last - first, whole.original.at(first * inputs), Scalar::float32);
      last = first;
    }
    Numbers values(Scalar::float32, outputs * inputs);
    for (std::int64_t row = 0; row < outputs; ++row) pieces.copy_row(row, values.at(row * inputs), Scalar::float32);
    EXPECT_TRUE(values == whole.values);
    EXPECT_EQ(pieces.scales_of(0, outputs), whole.matrix.scales_of(0, outputs));
  }
}

// Queries, keys and values lie one after another in one matrix; each begins its runs anew, in the middle of a panel.
TEST(CodedMatrix, TensorsSideBySideAreCodedAsIfAlone) {
  ThreadTeam team(2);
  constexpr std::int64_t inputs = 27, counts[] = {21, 5, 12};
  for (const CodedForm& form : forms()) {
    std::vector<std::byte> memory(CodedMatrix::bytes_needed(38, inputs, form), std::byte{0xFF});
    CodedMatrix joined(memory.data(), 38, inputs, form);
    std::int64_t first = 0;
    for (const std::int64_t rows : counts) {
      const Coded alone(team, rows, inputs, form);
      joined.code_rows(team, first, rows, alone.original.data(), Scalar::float32);
      Numbers values(Scalar::float32, rows * inputs);
      for (std::int64_t row = 0; row < rows; ++row)
        joined.copy_row(first + row, values.at(row * inputs), Scalar::float32);
      EXPECT_TRUE(values == alone.values) << name(form, rows, inputs);
      EXPECT_EQ(joined.scales_of(first, rows), alone.matrix.scales_of(0, rows));
      first += rows;
    }
  }
}

TEST(CodedMatrix, KnownCodesMeanTheirValuesTimesTheirScales) {
  constexpr std::int64_t inputs = 21, outputs = 4;  // the second run begins in the last row
  const CodedForm form{Code::nf4, 64};
  std::vector<std::byte> memory(CodedMatrix::bytes_needed(outputs, inputs, form), std::byte{0xFF});
  CodedMatrix matrix(memory.data(), outputs, inputs, form);
  std::vector<std::uint8_t> codes(42);
  for (std::size_t i = 0; i < 42; ++i) codes[i] = static_cast<std::uint8_t>((2 * i) % 16 << 4 | (2 * i + 1) % 16);
  matrix.fill_codes(0, outputs, codes.data(), std::vector<float>{0.5F, 3.0F});
  Numbers row(Scalar::float32, inputs);
  for (std::int64_t r = 0; r < outputs; ++r) {
    matrix.copy_row(r, row.data(), Scalar::float32);
    for (std::int64_t k = 0; k < inputs; ++k) {
      const std::int64_t element = r * inputs + k;
      const float scale = element < 64 ? 0.5F : 3.0F;
      ASSERT_EQ(row[k], code_table(Code::nf4).values[static_cast<std::size_t>(element % 16)] * scale) << element;
    }
  }
}

TEST(CodedMatrix, BytesAreMultipliesOfARowsLargestMagnitudeOver127) {
  ThreadTeam team(1);
  const CodedForm form{Code::int8};
  std::vector<std::byte> memory(CodedMatrix::bytes_needed(2, 4, form));
  CodedMatrix matrix(memory.data(), 2, 4, form);
  const float rows[] = {1.0F, -2.0F, 0.5F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F};
  matrix.code_rows(team, 0, 2, rows, Scalar::float32);
  Numbers row(Scalar::float32, 4);
  matrix.copy_row(0, row.data(), Scalar::float32);
  const float step = 2.0F * (1.0F / 127.0F);
  EXPECT_EQ(row[0], 64 * step);  // 63.5 goes to the even one
  EXPECT_EQ(row[1], -127 * step);
  EXPECT_EQ(row[2], 32 * step);
  matrix.copy_row(1, row.data(), Scalar::float32);
  for (std::int64_t k = 0; k < 4; ++k) EXPECT_EQ(row[k], 0);
}

TEST(CodedMatrix, ANumberThatIsNoneSpoilsItsRunAndNothingElse) {
  ThreadTeam team(1);
  for (const CodedForm& form : {CodedForm{Code::int8}, CodedForm{Code::nf4, 64}, CodedForm{Code::fp4, 64}}) {
    Numbers rows = Numbers::drawn(Scalar::float32, 128, 5);
    rows.set(70, std::nanf(""));
    std::vector<std::byte> memory(CodedMatrix::bytes_needed(2, 64, form));
    CodedMatrix matrix(memory.data(), 2, 64, form);
    matrix.code_rows(team, 0, 2, rows.data(), Scalar::float32);
    Numbers row(Scalar::float32, 64);
    matrix.copy_row(0, row.data(), Scalar::float32);
    for (std::int64_t k = 0; k < 64; ++k) EXPECT_FALSE(std::isnan(row[k]));
    matrix.copy_row(1, row.data(), Scalar::float32);
    EXPECT_TRUE(std::isnan(row[6]));
  }
}

TEST(ScaleRounding, ANumberBecomesTheNearestOfTheMapInItsBlock) {
  const Numbers drawn = Numbers::drawn(Scalar::float32, 700, 6);
  std::vector<float> scales(drawn.floats(), drawn.floats() + 700);
  for (float& scale : scales) scale = std::abs(scale);
  double mean = 0;
  for (const float scale : scales) mean += scale / 700.0;
  std::vector<float> rounded = scales;
  round_scales(rounded);
  for (std::size_t block = 0; block < 700; block += 256) {
    const std::size_t end = std::min<std::size_t>(700, block + 256);
    double most = 0;
    for (std::size_t i = block; i < end; ++i) most = std::max(most, std::abs(scales[i] - mean));
    for (std::size_t i = block; i < end; ++i) {  // steps of 0.9 / 64 where the map is coarsest
      EXPECT_LE(std::abs(rounded[i] - scales[i]), most * 0.00704 + 1e-6) << i;
    }
  }
  EXPECT_NE(rounded, scales);
}

TEST(CodedMatrix, CodesInTheOrderOfFilesMakeTheSameMatrix) {
  for (const VectorSet set : available_sets())
    for (const Scalar from : scalars)
      for (const CodedForm& form : forms())
        for (const std::int64_t inputs : {1, 7, 100, 256}) {
          constexpr std::int64_t outputs = 37;
          ThreadTeam team(2, set);
          const Coded weight(team, outputs, inputs, form, from);
          std::vector<std::uint8_t> codes(static_cast<std::size_t>(
              form.code == Code::int8 ? outputs * inputs : (outputs * inputs + 1) / 2));
          std::vector<float> magnitudes(static_cast<std::size_t>(weight.matrix.runs_of(outputs)));
          code_rows(team, form, {outputs, inputs, weight.original.data(), from}, {codes, magnitudes});
          std::vector<std::byte> memory(weight.memory.size(), std::byte{0xFF});
          CodedMatrix(memory.data(), outputs, inputs, form).fill_codes(0, outputs, codes.data(), magnitudes);
          ASSERT_EQ(memory, weight.memory) << name(form, outputs, inputs);
        }
}

TEST(ScaleRounding, CodesAndStepsAreWhatIsLeftOfTheScales) {
  const Numbers drawn = Numbers::drawn(Scalar::float32, 700, 6);
  std::vector<float> rounded(drawn.floats(), drawn.floats() + 700);
  const CodedScales coded = code_scales(rounded);
  ASSERT_EQ(coded.codes.size(), 700U);
  ASSERT_EQ(coded.steps.size(), 3U);
  round_scales(rounded);
  for (std::size_t i = 0; i < 700; ++i) {
    EXPECT_EQ(rounded[i], coded.at(i));
    EXPECT_EQ(rounded[i], signed_map().values[coded.codes[i]] * coded.steps[i / scales_a_step] + coded.offset);
  }
}

TEST(ScaleRounding, ScalesThatAreAllEqualStay) {
  std::vector<float> scales(300, 0.375F);
  round_scales(scales);
  for (const float scale : scales) EXPECT_EQ(scale, 0.375F);
}

TEST(Linear, AMatrixOf16BitsHasTheBitsOfOneThatWasWidened) {
  ThreadTeam team(2);
  for (const Scalar kept : {Scalar::bfloat16, Scalar::float16})
    for (const std::int64_t outputs : {17, 130})
      for (const std::int64_t inputs : {31, 600}) {
        const Numbers values = Numbers::drawn(kept, outputs * inputs, 1), wide = values.as(Scalar::float32);
        std::vector<std::byte> narrow_memory(PackedMatrix::bytes_needed(outputs, inputs, kept));
        std::vector<std::byte> wide_memory(PackedMatrix::bytes_needed(outputs, inputs, Scalar::float32));
        PackedMatrix narrow_panels(narrow_memory.data(), outputs, inputs, kept);
        PackedMatrix wide_panels(wide_memory.data(), outputs, inputs, Scalar::float32);
        narrow_panels.pack_rows(team, 0, outputs, values.data(), kept);
        wide_panels.pack_rows(team, 0, outputs, wide.data(), Scalar::float32);
        for (const std::int64_t rows : {1, 3, 12, 40, 300}) {
          const Numbers input = Numbers::drawn(Scalar::float32, rows * inputs, 2);
          const Numbers gradient = Numbers::drawn(Scalar::float32, rows * outputs, 3);
          for (const VectorSet set : available_sets()) {
            ThreadTeam other(2, set);
            ASSERT_TRUE(forward(other, narrow_panels, input, 0, rows) == forward(team, wide_panels, input, 0, rows));
            ASSERT_TRUE(backward(other, narrow_panels, gradient, rows) == backward(team, wide_panels, gradient, rows));
          }
        }
      }
}

}  // namespace
}  // namespace muster::kernels
