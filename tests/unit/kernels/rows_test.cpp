#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/logits.hpp"
#include "kernels/normalize.hpp"
#include "kernels/rotate.hpp"
#include "numbers.hpp"

namespace muster::kernels {
namespace {

struct NormalizeCase {
  bool centered;
  std::int64_t rows, columns;
};
constexpr NormalizeCase normalize_cases[] = {{false, 5, 64},   {true, 5, 64},   {false, 300, 37}, {true, 300, 37},
                                             {false, 2, 4097}, {true, 2, 4097}, {false, 1, 1}};

struct Rows {
  NormalizeCase shape;
  Numbers input, weight, bias, gradient;

  explicit Rows(const NormalizeCase& asked, Scalar scalar = Scalar::float32)
      : shape(asked),
        input(Numbers::drawn(scalar, asked.rows * asked.columns, 1, 2.0F)),
        weight(Numbers::drawn(Scalar::float32, asked.columns, 2)),
        bias(Numbers::drawn(Scalar::float32, asked.columns, 3)),
        gradient(Numbers::drawn(scalar, asked.rows * asked.columns, 4)) {}

  Normalization part(std::int64_t first, std::int64_t rows) const {
    return {input.at(first * shape.columns),          input.scalar(), rows, shape.columns, weight.floats(),
            shape.centered ? bias.floats() : nullptr, 1e-5F};
  }
  Numbers normalize(ThreadTeam& team, std::int64_t first, std::int64_t rows) const {
    Numbers output(input.scalar(), rows * shape.columns);
    (shape.centered ? layer_norm : rms_norm)(team, part(first, rows), output.data());
    return output;
  }
  // One row in double: normalised before the weight.
  std::vector<double> normalized(std::int64_t row) const {
    double mean = 0, square = 0;
    for (std::int64_t i = 0; i < shape.columns; ++i) mean += input[row * shape.columns + i];
    mean = shape.centered ? mean / static_cast<double>(shape.columns) : 0;
    for (std::int64_t i = 0; i < shape.columns; ++i) square += std::pow(input[row * shape.columns + i] - mean, 2);
    const double inverse = 1 / std::sqrt(square / static_cast<double>(shape.columns) + 1e-5);
    std::vector<double> result;
    for (std::int64_t i = 0; i < shape.columns; ++i)
      result.push_back((input[row * shape.columns + i] - mean) * inverse);
    result.push_back(inverse);
    return result;
  }
};

TEST(Normalize, IsItsDefinition) {
  ThreadTeam team(2);
  for (const NormalizeCase& shape : normalize_cases) {
    const Rows rows(shape);
    std::vector<double> expected;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const auto values = rows.normalized(row);
      for (std::int64_t i = 0; i < shape.columns; ++i) {
        expected.push_back(values[static_cast<std::size_t>(i)] * rows.weight[i] + (shape.centered ? rows.bias[i] : 0));
      }
    }
    EXPECT_LT(relative_error(rows.normalize(team, 0, shape.rows), expected), 1e-6) << shape.columns;
  }
}

TEST(Normalize, TheRmsNormRoundsBeforeTheWeightAsTransformersDoes) {
  ThreadTeam team(1);
  const Rows rows({false, 4, 100}, Scalar::bfloat16);
  const Numbers seen = rows.normalize(team, 0, 4);
  std::int64_t twice_rounded = 0;
  for (std::int64_t row = 0; row < 4; ++row) {
    const auto values = rows.normalized(row);
    for (std::int64_t i = 0; i < 100; ++i) {
      Numbers stored(Scalar::bfloat16, 2);
      stored.set(0, static_cast<float>(values[static_cast<std::size_t>(i)]));
      stored.set(0, static_cast<float>(stored[0]) * static_cast<float>(rows.weight[i]));
      stored.set(1, static_cast<float>(values[static_cast<std::size_t>(i)]) * static_cast<float>(rows.weight[i]));
      EXPECT_EQ(seen[row * 100 + i], stored[0]);
      twice_rounded += stored[0] != stored[1] ? 1 : 0;
    }
  }
  EXPECT_GT(twice_rounded, 20);  // the case tells the two apart
}

TEST(Normalize, ARowHasTheSameBitsInAnyCompanyOnAnyThreadsAndVectorSet) {
  for (const bool centered : {false, true}) {
    const Rows rows({centered, 40, 333});
    ThreadTeam portable(1, VectorSet::portable);
    const Numbers all = rows.normalize(portable, 0, 40);
    for (const VectorSet set : available_sets()) {
      ThreadTeam team(2, set);
      for (std::int64_t count = 1; count <= 40; ++count) {
        ASSERT_TRUE(rows.normalize(team, 40 - count, count).same_bits(0, all, (40 - count) * 333, count * 333));
      }
    }
  }
}

TEST(Normalize, GradientsAreTheChainRules) {
  for (const NormalizeCase& shape : normalize_cases) {
    const Rows rows(shape);
    const auto count = static_cast<double>(shape.columns);
    std::vector<double> expected, weight(static_cast<std::size_t>(shape.columns)), bias(weight.size());
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const auto values = rows.normalized(row);
      double sum = 0, products = 0;
      for (std::int64_t i = 0; i < shape.columns; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const double gradient = rows.gradient[row * shape.columns + i];
        weight[at] += gradient * values[at];
        bias[at] += gradient;
        sum += gradient * rows.weight[i];
        products += gradient * rows.weight[i] * values[at];
      }
      if (!shape.centered) sum = 0;
      for (std::int64_t i = 0; i < shape.columns; ++i) {
        const double weighted = rows.gradient[row * shape.columns + i] * rows.weight[i];
        expected.push_back(values.back() *
                           (weighted - sum / count - values[static_cast<std::size_t>(i)] * products / count));
      }
    }
    const auto run = [&](ThreadTeam& team) {
      Numbers input_gradient(Scalar::float32, shape.rows * shape.columns);
      Numbers weights(Scalar::float32, shape.columns), biases = weights;
      if (shape.centered) {
        layer_norm_gradient(team, rows.part(0, shape.rows), rows.gradient.data(), input_gradient.data(),
                            {.values = weights.floats()}, {.values = biases.floats()});
      } else {
        rms_norm_gradient(team, rows.part(0, shape.rows), rows.gradient.data(), input_gradient.data(),
                          {.values = weights.floats()});
      }
      return std::vector{input_gradient, weights, biases};
    };
    ThreadTeam team(2), portable(1, VectorSet::portable);
    const auto seen = run(team);
    if (shape.columns > 1) {
      EXPECT_LT(relative_error(seen[0], expected), 3e-6) << shape.columns;
    }
    EXPECT_LT(relative_error(seen[1], weight), 3e-6) << shape.columns;
    if (shape.centered) {
      EXPECT_LT(relative_error(seen[2], bias), 3e-6) << shape.columns;
    }
    EXPECT_TRUE(seen == run(portable));
  }
}

TEST(Rotate, TurnsHalvesByTheirAnglesAndBack) {
  ThreadTeam team(2);
  for (const std::int64_t head_size : {2, 8, 64, 80}) {
    constexpr std::int64_t rows = 11, heads = 3;
    const std::int64_t half = head_size / 2, stride = heads * head_size + 5;
    const Numbers before = Numbers::drawn(Scalar::float32, rows * stride, 1);
    Numbers cosines(Scalar::float32, rows * half), sines(Scalar::float32, rows * half), values = before;
    for (std::int64_t i = 0; i < rows * half; ++i) {
      cosines.set(i, std::cos(static_cast<float>(i)));
      sines.set(i, std::sin(static_cast<float>(i)));
    }
    const Rotation rotation{values.data(), Scalar::float32,  rows,          heads, head_size,
                            stride,        cosines.floats(), sines.floats()};
    rotate(team, rotation);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t i = 0; i < half; ++i) {
          const std::int64_t first = row * stride + h * head_size + i;
          const double c = cosines[row * half + i], s = sines[row * half + i];
          ASSERT_NEAR(values[first], before[first] * c - before[first + half] * s, 1e-6);
          ASSERT_NEAR(values[first + half], before[first + half] * c + before[first] * s, 1e-6);
        }
      }
      for (std::int64_t i = heads * head_size; i < stride; ++i)
        ASSERT_EQ(values[row * stride + i], before[row * stride + i]);
    }
    rotate_back(team, rotation);
    for (std::int64_t i = 0; i < values.count(); ++i) ASSERT_NEAR(values[i], before[i], 1e-6);
  }
}

TEST(Rotate, RoundsAnglesToTheScalarAsTransformersDoes) {
  ThreadTeam team(1);
  const float cosine = 1.0F - 0x1p-10F;  // 1 as bfloat16
  const float sine = 0.0F;
  Numbers value(Scalar::bfloat16, 2);
  value.set(0, 3.0F);
  rotate(team, {value.data(), Scalar::bfloat16, 1, 1, 2, 2, &cosine, &sine});
  EXPECT_EQ(value[0], 3.0);
}

TEST(Logits, LogSumsAndSelectedLogProbabilitiesAreTheirDefinitions) {
  ThreadTeam team(2);
  for (const float width : {1.0F, 50.0F}) {
    for (const std::int64_t columns : {1, 5, 100, 50257}) {
      Numbers values = Numbers::drawn(Scalar::float32, 3 * columns, 1, width);
      if (columns > 5) values.set(7, -std::numeric_limits<float>::infinity());
      const std::int64_t tokens[] = {0, columns / 2, columns - 1};
      Numbers sums(Scalar::float32, 3), selected(Scalar::float32, 3), shares(Scalar::float32, 3 * columns);
      const Logits logits{values.data(), Scalar::float32, 3, columns};
      log_sum_exp(team, logits, sums.floats());
      log_softmax_select(team, logits, tokens, selected.floats());
      softmax(team, logits, shares.floats());
      for (std::int64_t row = 0; row < 3; ++row) {
        double most = -1e300, sum = 0;
        for (std::int64_t i = 0; i < columns; ++i) most = std::max(most, values[row * columns + i]);
        for (std::int64_t i = 0; i < columns; ++i) sum += std::exp(values[row * columns + i] - most);
        const double right = most + std::log(sum);
        EXPECT_NEAR(sums[row], right, 1e-6 * std::max(1.0, std::abs(right)));
        const double log_probability = values[row * columns + tokens[row]] - right;
        EXPECT_NEAR(selected[row], log_probability, 2e-6 * std::max(1.0, std::abs(log_probability)));
        for (std::int64_t i = 0; i < columns; ++i) {
          ASSERT_NEAR(shares[row * columns + i], std::exp(values[row * columns + i] - right), 1e-6);
        }
      }
    }
  }
}

TEST(Logits, ARowsResultsDependOnThatRowAlone) {
  constexpr std::int64_t columns = 1003;
  const Numbers values = Numbers::drawn(Scalar::float32, 8 * columns, 1, 3.0F);
  const std::vector<std::int64_t> tokens{1, 2, 3, 4, 5, 6, 7, 1002};
  const auto run = [&](ThreadTeam& team, std::int64_t first, std::int64_t rows) {
    const Logits logits{values.at(first * columns), Scalar::float32, rows, columns};
    Numbers sums(Scalar::float32, rows), selected(Scalar::float32, rows), shares(Scalar::float32, rows * columns);
    log_sum_exp(team, logits, sums.floats());
    log_softmax_select(team, logits, tokens.data() + first, selected.floats());
    softmax(team, logits, shares.floats());
    return std::vector{sums, selected, shares};
  };
  ThreadTeam portable(1, VectorSet::portable);
  const auto all = run(portable, 0, 8);
  for (const VectorSet set : available_sets()) {
    ThreadTeam team(2, set);
    for (std::int64_t row = 0; row < 8; ++row) {
      const auto one = run(team, row, 1);
      EXPECT_TRUE(one[0].same_bits(0, all[0], row, 1) && one[1].same_bits(0, all[1], row, 1));
      EXPECT_TRUE(one[2].same_bits(0, all[2], row * columns, columns));
    }
  }
}

TEST(Logits, TheLargestIsTheFirstOfEqualsAndNeverANaN) {
  for (const VectorSet set : available_sets()) {
    ThreadTeam team(2, set);
    for (const Scalar scalar : {Scalar::float32, Scalar::bfloat16}) {
      for (const std::int64_t place : {0, 1, 15, 16, 40, 99}) {
        Numbers values = Numbers::filled(scalar, 2 * 100, -7.0F);
        values.set(place, 2.0F);
        values.set(99, 2.0F);
        values.set(100 + place, -3.0F);
        for (const std::int64_t nan : {3, 50}) {
          if (nan != place) values.set(nan, std::nanf(""));
        }
        std::int64_t found[2] = {-1, -1};
        argmax(team, {values.data(), scalar, 2, 100}, found);
        EXPECT_EQ(found[0], place);
        EXPECT_EQ(found[1], place);
      }
    }
  }
}

TEST(Logits, TheGradientOfASelectedLogProbabilityIsOneAtTheTokenLessTheProbabilities) {
  ThreadTeam team(2);
  constexpr std::int64_t columns = 70;
  const Numbers values = Numbers::drawn(Scalar::float32, 2 * columns, 1, 2.0F);
  const std::int64_t tokens[] = {0, 69};
  const float gradients[] = {-0.5F, 2.0F};
  Numbers sums(Scalar::float32, 2), shares(Scalar::float32, 2 * columns), seen = values;
  const Logits logits{values.data(), Scalar::float32, 2, columns};
  log_sum_exp(team, logits, sums.floats());
  softmax(team, logits, shares.floats());
  log_softmax_select_gradient(team, {seen.data(), Scalar::float32, 2, columns}, tokens, sums.floats(), gradients,
                              seen.data());
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t i = 0; i < columns; ++i) {
      const double hit = i == tokens[row] ? 1 : 0;
      ASSERT_NEAR(seen[row * columns + i], static_cast<double>(gradients[row]) * (hit - shares[row * columns + i]),
                  1e-6);
    }
  }
}

TEST(Logits, LossesAreTheSelectedLogProbabilitiesAndTheirGradientTakesTheLogitsPlace) {
  constexpr std::int64_t rows = 5, columns = 1003;
  const std::int64_t tokens[] = {0, 1, 500, 1001, 1002};
  for (const Scalar scalar : {Scalar::float32, Scalar::bfloat16}) {
    const Numbers values = Numbers::drawn(scalar, rows * columns, 1, 3.0F);
    const Logits logits{values.data(), scalar, rows, columns};
    for (const VectorSet set : available_sets()) {
      ThreadTeam team(2, set);
      Numbers selected(Scalar::float32, rows), sums(Scalar::float32, rows), losses(Scalar::float32, rows);
      const Numbers factors = Numbers::filled(Scalar::float32, rows, -0.25F);
      const Numbers weights = Numbers::filled(Scalar::float32, rows, 0.25F);
      Numbers gradient = values, wanted(scalar, rows * columns);
      log_softmax_select(team, logits, tokens, selected.floats());
      log_sum_exp(team, logits, sums.floats());
      log_softmax_select_gradient(team, logits, tokens, sums.floats(), factors.floats(), wanted.data());
      cross_entropy(team, {gradient.data(), scalar, rows, columns}, tokens, weights.floats(), losses.floats(),
                    gradient.data());
      for (std::int64_t row = 0; row < rows; ++row) EXPECT_EQ(losses[row], -selected[row]);
      EXPECT_TRUE(gradient == wanted) << name(set);
    }
  }
}

}  // namespace
}  // namespace muster::kernels
