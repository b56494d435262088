// Sums of bfloat16: each call adds what a float32 sum of the same terms would hold, and rounds once.
#include "kernels/linear.hpp"
#include "kernels/normalize.hpp"
#include "kernels/row_sums.hpp"
#include "numbers.hpp"

namespace muster::kernels {
namespace {

// add(sum) twice, to numbers of bfloat16.
template <class Add>
void expect_rounded_once(std::int64_t count, Add&& add) {
  Numbers alone(Scalar::float32, count);
  add(alone.sum());
  Numbers expected = Numbers::drawn(Scalar::bfloat16, count, 9, 3.0F), seen = expected;
  for (int time = 0; time < 2; ++time) {
    for (std::int64_t i = 0; i < count; ++i)
      expected.set(i, static_cast<float>(expected[i]) + static_cast<float>(alone[i]));
    add(seen.sum());
    EXPECT_TRUE(seen == expected);
  }
}

template <class Use>
void on_every_team(Use&& use) {
  for (const VectorSet set : available_sets()) {
    for (const int threads : {1, 3}) {
      ThreadTeam team(threads, set);
      SCOPED_TRACE(name(set));
      use(team);
    }
  }
}

TEST(RoundedSums, TakeAProductOfAllRowsAsOneTerm) {
  on_every_team([](ThreadTeam& team) {
    for (const Scalar io : {Scalar::float32, Scalar::bfloat16}) {
      for (const auto& [outputs, inputs] : {std::pair{1, 1}, {61, 37}, {16, 64}, {1930, 17}}) {
        const std::vector<std::int64_t> sequences{5, 300, 0, 7};
        const Numbers gradient = Numbers::drawn(io, 312 * outputs, 1), input = Numbers::drawn(io, 312 * inputs, 2);
        expect_rounded_once(std::int64_t{outputs} * inputs, [&](const Sum& sum) {
          linear_weight_gradient(team, gradient.data(), input.data(), io, sequences, outputs, inputs, sum);
        });
      }
    }
  });
}

TEST(RoundedSums, TakeAllRowsAsOneTermOrThoseOfOneIndex) {
  on_every_team([](ThreadTeam& team) {
    for (const Scalar io : {Scalar::float32, Scalar::bfloat16}) {
      for (const std::int64_t columns : {1, 37, 256}) {
        const Numbers values = Numbers::drawn(io, 600 * columns, 1);
        expect_rounded_once(columns, [&](const Sum& sum) { add_rows(team, values.data(), io, 600, columns, sum); });
        std::vector<std::int64_t> indices;
        for (std::int64_t i = 0; i < 600; ++i) indices.push_back(i * i * 7 % 11);
        expect_rounded_once(12 * columns, [&](const Sum& sum) {
          add_rows_at(team, values.data(), io, indices.data(), 600, columns, sum);
        });
      }
    }
  });
}

TEST(RoundedSums, TakeTheGradientsOfNormsAsOneTerm) {
  on_every_team([](ThreadTeam& team) {
    for (const std::int64_t columns : {8, 37}) {
      const Numbers input = Numbers::drawn(Scalar::bfloat16, 300 * columns, 1);
      const Numbers gradient = Numbers::drawn(Scalar::bfloat16, 300 * columns, 2);
      const Numbers weight = Numbers::drawn(Scalar::float32, columns, 3);
      Numbers back(Scalar::bfloat16, 300 * columns);
      const Normalization norm{input.data(), Scalar::bfloat16, 300, columns, weight.floats(), nullptr, 1e-5F};
      expect_rounded_once(columns,
                          [&](const Sum& sum) { rms_norm_gradient(team, norm, gradient.data(), back.data(), sum); });
      expect_rounded_once(
          columns, [&](const Sum& sum) { layer_norm_gradient(team, norm, gradient.data(), back.data(), sum, {}); });
      expect_rounded_once(
          columns, [&](const Sum& sum) { layer_norm_gradient(team, norm, gradient.data(), back.data(), {}, sum); });
    }
  });
}

}  // namespace
}  // namespace muster::kernels
