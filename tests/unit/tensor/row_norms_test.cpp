// The lengths of rows: the numbers of float64, and the same bits whatever is beside a row.
#include "tensor/row_norms.hpp"

#include <gtest/gtest.h>

#include "tensor/device_ops.hpp"

namespace muster::tensor {
namespace {

using spec::PackedCode;
using spec::WeightPacking;

class RowNorms : public testing::TestWithParam<WeightForm> {
 protected:
  RowNorms() {
    at::manual_seed(3);
    ops_ = with_threads(2);
  }

  static DeviceOps with_threads(int threads) {
    return *make_device_ops({at::kCPU, threads, spec::Attention::sdpa, false});
  }
  Primitives& primitives() { return *ops_.primitives; }
  Weight filled(const at::Tensor& rows, const WeightForm& form) {
    Weight weight = primitives().new_weight(rows.size(0), rows.size(1), form);
    primitives().fill_rows(weight, 0, rows.to(form.packing ? at::kFloat : form.stored));
    return weight;
  }
  // By take_rows, which products are tested with.
  at::Tensor numbers_of(const Weight& weight) {
    return primitives().take_rows(weight, at::arange(weight.outputs, at::kLong)).to(at::kDouble);
  }

  DeviceOps ops_;
};

constexpr std::pair<std::int64_t, std::int64_t> norm_sizes[] = {{16, 64}, {301, 75}, {5, 1}, {2500, 700}};

TEST_P(RowNorms, AreThoseOfTheNumbersThatProductsAreMadeOf) {
  for (const auto& [outputs, inputs] : norm_sizes) {
    const Weight weight = filled(at::randn({outputs, inputs}), GetParam());
    const at::Tensor found = row_norms(primitives(), weight, 0, outputs);
    EXPECT_EQ(found.scalar_type(), at::kFloat);
    EXPECT_TRUE(at::allclose(found.to(at::kDouble), numbers_of(weight).norm(2, 1), 1e-6, 0)) << outputs;
  }
}

TEST_P(RowNorms, WithAProductAddedAreThoseOfTheSum) {
  const WeightForm plain = GetParam().type;
  for (const auto& [outputs, inputs] : norm_sizes) {
    const Weight weight = filled(at::randn({outputs + 3, inputs}), GetParam());
    const Weight up = filled(at::randn({outputs, 4}), plain), down = filled(at::randn({4, inputs}), plain);
    const at::Tensor found = row_norms(primitives(), weight, 3, outputs, AddedProduct{up, down, 0.5});
    const at::Tensor sum = numbers_of(weight).narrow(0, 3, outputs) + 0.5 * numbers_of(up).matmul(numbers_of(down));
    const double tolerance = plain.type == at::kFloat ? 1e-5 : 1e-2;  // the product has the type that is computed in
    EXPECT_TRUE(at::allclose(found.to(at::kDouble), sum.norm(2, 1), tolerance, 0)) << outputs << "x" << inputs;
  }
}

TEST_P(RowNorms, HaveTheSameBitsWhateverRowsAndThreadsTheyAreTakenWith) {
  const WeightForm plain = GetParam().type;
  const Weight weight = filled(at::randn({2500, 700}), GetParam());
  const Weight down = filled(at::randn({4, 700}), plain);
  const at::Tensor up_rows = at::randn({2500, 4});
  const at::Tensor all = row_norms(primitives(), weight, 0, 2500, AddedProduct{filled(up_rows, plain), down, 2});
  const DeviceOps others = with_threads(1);
  for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 1}, {17, 300}, {1499, 1001}}) {
    const Weight up = filled(up_rows.narrow(0, first, count), plain);
    const at::Tensor some = row_norms(*others.primitives, weight, first, count, AddedProduct{up, down, 2});
    EXPECT_TRUE(at::equal(some, all.narrow(0, first, count))) << first;
  }
}

TEST_P(RowNorms, ZerosThatAreAddedChangeNoBit) {
  const Weight weight = filled(at::randn({40, 64}), GetParam());
  const WeightForm plain = GetParam().type;
  const Weight up = filled(at::zeros({40, 4}), plain), down = filled(at::randn({4, 64}), plain);
  EXPECT_TRUE(at::equal(row_norms(primitives(), weight, 0, 40, AddedProduct{up, down, 2}),
                        row_norms(primitives(), weight, 0, 40)));
}

INSTANTIATE_TEST_SUITE_P(Forms, RowNorms,
                         testing::Values(WeightForm(at::kFloat), WeightForm(at::kBFloat16),
                                         WeightForm(at::kFloat, at::kBFloat16),
                                         WeightForm(at::kFloat, WeightPacking{PackedCode::int8}),
                                         WeightForm(at::kFloat, WeightPacking{PackedCode::nf4}),
                                         WeightForm(at::kBFloat16, WeightPacking{PackedCode::fp4, 32})),
                         [](const auto& form) { return std::to_string(form.index); });

}  // namespace
}  // namespace muster::tensor
