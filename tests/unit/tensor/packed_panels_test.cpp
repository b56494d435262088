// Packed weights through tensor operations alone, against the CPU's kernels.
#include "tensor/packed_panels.hpp"

#include <gtest/gtest.h>

#include "tensor/device_ops.hpp"

namespace muster::tensor {
namespace {

using spec::PackedCode;
using spec::WeightPacking;

class PackedPanels : public testing::TestWithParam<WeightPacking> {
 protected:
  PackedPanels() {
    at::manual_seed(11);
    auto made = make_device_ops({at::kCPU, 1, spec::Attention::sdpa, false});
    EXPECT_TRUE(made) << (made ? "" : made.error().what);
    ops_ = std::move(*made);
  }

  Primitives& primitives() { return *ops_.primitives; }
  Weight filled(const at::Tensor& rows, at::ScalarType type) {
    Weight weight = primitives().new_weight(rows.size(0), rows.size(1), {type, GetParam()});
    primitives().fill_rows(weight, 0, rows);
    return weight;
  }
  static at::Tensor values() { return code_values(GetParam().code, at::kCPU); }

  DeviceOps ops_;
};

constexpr std::pair<std::int64_t, std::int64_t> sizes[] = {{16, 64}, {40, 64}, {301, 576}, {51, 75}, {3, 9}};

TEST_P(PackedPanels, AreUnpackedToTheNumbersThatKernelsComputeWith) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const auto& [outputs, inputs] : sizes) {
      const Weight weight = filled(at::randn({outputs, inputs}), type);
      const at::Tensor found = unpacked(weight, values());
      EXPECT_EQ(found.scalar_type(), type);
      EXPECT_TRUE(at::equal(found, primitives().take_rows(weight, at::arange(outputs, at::kLong))));
    }
}

TEST_P(PackedPanels, LargeOnesAreUnpackedInParts) {
  const Weight weight = filled(at::randn({2051, 4160}), at::kFloat);
  EXPECT_TRUE(at::equal(unpacked(weight, values()), primitives().take_rows(weight, at::arange(2051, at::kLong))));
}

TEST_P(PackedPanels, SomeRowsAreUnpackedAsInTheWhole) {
  const Weight weight = filled(at::randn({2051, 4160}), at::kFloat);
  const at::Tensor all = unpacked(weight, values());
  for (const auto& [first, rows] : {std::pair<std::int64_t, std::int64_t>{0, 16}, {5, 3}, {15, 2}, {33, 2018}})
    EXPECT_TRUE(at::equal(unpacked_rows(weight, values(), first, rows), all.narrow(0, first, rows))) << first;
}

// As they are read: in slices that begin at a cut, of one tensor or of several.
TEST_P(PackedPanels, RowsAreCopiedToWhereTheyBelong) {
  for (const auto& [outputs, inputs] : sizes)
    for (const std::int64_t tensors : {1, 3}) {
      const at::Tensor rows = at::randn({outputs, inputs});
      const Weight part = filled(rows, at::kFloat);
      const Weight whole = primitives().new_weight(tensors * outputs, inputs, {at::kFloat, GetParam()});
      for (std::int64_t i = 0; i < tensors; ++i) copy_packed_rows(whole, i * outputs, part);
      const at::Tensor numbers = primitives().take_rows(part, at::arange(outputs, at::kLong));
      EXPECT_TRUE(at::equal(unpacked(whole, values()), numbers.repeat({tensors, 1})));
    }
}

TEST_P(PackedPanels, ScalesAreReplacedAlone) {
  const at::Tensor rows = at::randn({40, 75});
  const Weight weight = filled(rows, at::kFloat), larger = filled(2 * rows, at::kFloat);
  const at::Tensor before = unpacked(weight, values());
  copy_packed_scales(weight, larger);
  EXPECT_TRUE(at::equal(unpacked(weight, values()), 2 * before));
}

INSTANTIATE_TEST_SUITE_P(Forms, PackedPanels,
                         testing::Values(WeightPacking{PackedCode::int8}, WeightPacking{PackedCode::nf4},
                                         WeightPacking{PackedCode::fp4, 32}, WeightPacking{PackedCode::nf4, 4096}),
                         [](const auto& name) { return std::to_string(name.index); });

}  // namespace
}  // namespace muster::tensor
