// Weights in 8 and 4 bits, and in 16 bits that stand for float32, against plain ones with the same numbers.
#include <gtest/gtest.h>

#include "tensor/device_ops.hpp"

namespace muster::tensor {
namespace {

using spec::PackedCode;
using spec::WeightPacking;

class PackedWeights : public testing::Test {
 protected:
  PackedWeights() {
    at::manual_seed(7);
    auto made = make_device_ops({at::kCPU, 2, spec::Attention::sdpa, false});
    EXPECT_TRUE(made) << (made ? "" : made.error().what);
    ops_ = std::move(*made);
  }

  Primitives& primitives() { return *ops_.primitives; }
  at::Tensor numbers_of(const Weight& weight) {
    return primitives().take_rows(weight, at::arange(weight.outputs, at::kLong));
  }
  Weight filled(const at::Tensor& rows, const WeightForm& form) {
    Weight weight = primitives().new_weight(rows.size(0), rows.size(1), form);
    primitives().fill_rows(weight, 0, rows);
    return weight;
  }
  void expect_the_bits_of(const Weight& found, const Weight& wanted) {
    const at::Tensor bias = at::randn({wanted.outputs}).to(wanted.type);
    for (const std::int64_t rows : {1, 3, 30}) {
      const at::Tensor input = at::randn({rows, wanted.inputs}).to(wanted.type);
      const at::Tensor gradient = at::randn({rows, wanted.outputs}).to(wanted.type);
      EXPECT_TRUE(
          at::equal(primitives().linear(found, bias, input), primitives().linear(wanted, bias, input)));
      EXPECT_TRUE(at::equal(primitives().linear_input_gradient(found, gradient),
                            primitives().linear_input_gradient(wanted, gradient)));
      at::Tensor sum = at::randn({rows, wanted.outputs}).to(wanted.type), other = sum.clone();
      primitives().linear_add(found, bias, input, sum, sum);
      primitives().linear_add(wanted, bias, input, other, other);
      EXPECT_TRUE(at::equal(sum, other));
    }
  }

  DeviceOps ops_;
};

std::vector<WeightPacking> packings() {
  return {{PackedCode::int8}, {PackedCode::nf4}, {PackedCode::fp4}, {PackedCode::nf4, 4096}, {PackedCode::fp4, 32, true}};
}

TEST_F(PackedWeights, ProductsAreThoseOfAPlainWeightOfTheirType) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const WeightPacking& packing : packings())
      for (const auto& [outputs, inputs] : {std::pair<std::int64_t, std::int64_t>{40, 64}, {300, 576}, {51, 75}}) {
        const at::Tensor rows = at::randn({outputs, inputs}) / 10;
        Weight packed = filled(rows, {type, packing});
        primitives().round_scales(packed, 0, outputs);
        const at::Tensor numbers = numbers_of(packed);
        EXPECT_EQ(numbers.scalar_type(), type);
        EXPECT_LT((numbers - rows).abs().max().item<float>(), 0.2 * rows.abs().max().item<float>());
        expect_the_bits_of(packed, filled(numbers, type));
      }
}

TEST_F(PackedWeights, SixteenBitsMayStandForFloat32) {
  for (const at::ScalarType kept : {at::kBFloat16, at::kHalf}) {
    const at::Tensor rows = at::randn({83, 300}).to(kept);
    const Weight narrow = filled(rows, {at::kFloat, kept}), wide = filled(rows.to(at::kFloat), at::kFloat);
    EXPECT_EQ(2 * narrow.storage.numel(), wide.storage.numel());
    EXPECT_TRUE(at::equal(numbers_of(narrow), rows.to(at::kFloat)));
    expect_the_bits_of(narrow, wide);
  }
}

TEST_F(PackedWeights, ATensorMayComeInPartsAndInAnyType) {
  for (const WeightPacking& packing : packings())
    for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
      const at::Tensor rows = at::randn({1100, 9}).to(type);
      Weight whole = filled(rows, {at::kFloat, packing});
      Weight parts = primitives().new_weight(1100, 9, {at::kFloat, packing});
      const std::int64_t step = Primitives::rows_between_cuts(parts);
      for (std::int64_t last = 1100; last > 0;) {
        const std::int64_t first = (last - 1) / step * step;
        primitives().fill_rows(parts, first, rows.narrow(0, first, last - first));
        last = first;
      }
      for (Weight* weight : {&whole, &parts}) primitives().round_scales(*weight, 0, 1100);
      EXPECT_TRUE(at::equal(numbers_of(parts), numbers_of(whole)));
    }
}

// Queries, keys and values share a matrix, and neither runs nor what their scales are rounded with.
TEST_F(PackedWeights, TensorsOfOneMatrixAreRoundedEachByItself) {
  for (const WeightPacking& packing : packings()) {
    Weight joined = primitives().new_weight(38, 75, {at::kFloat, packing});
    std::int64_t first = 0;
    for (const std::int64_t rows : {21, 5, 12}) {
      const at::Tensor values = at::randn({rows, 75}) * static_cast<double>(first + 1);
      Weight alone = filled(values, {at::kFloat, packing});
      primitives().round_scales(alone, 0, rows);
      primitives().fill_rows(joined, first, values);
      primitives().round_scales(joined, first, rows);
      EXPECT_TRUE(at::equal(numbers_of(joined).narrow(0, first, rows), numbers_of(alone)));
      first += rows;
    }
  }
}

TEST_F(PackedWeights, CodesThatAreKnownArePutInAsTheyAre) {
  Weight bytes = primitives().new_weight(5, 7, {at::kFloat, WeightPacking{PackedCode::int8}});
  const at::Tensor codes = at::randint(-127, 128, {3, 7}).to(at::kChar), most = at::rand({3});
  primitives().fill_codes(bytes, 2, {codes, most});
  const at::Tensor steps = most * (1.0F / 127.0F);
  EXPECT_TRUE(at::equal(primitives().take_rows(bytes, at::arange(2, 5, at::kLong)),
                        codes.to(at::kFloat) * steps.unsqueeze(1)));

  Weight nibbles = primitives().new_weight(3, 35, {at::kFloat, WeightPacking{PackedCode::fp4}});  // 105: 53 bytes
  const at::Tensor pairs = at::randint(0, 256, {53}).to(at::kByte), scales = at::rand({2});
  primitives().fill_codes(nibbles, 0, {pairs, scales});
  const at::Tensor table = at::tensor({0.0, 1.0 / 192, 2.0 / 3, 1.0, 1.0 / 3, 0.5, 1.0 / 6, 0.25}, at::kFloat);
  const at::Tensor both = at::stack({at::bitwise_right_shift(pairs, 4), at::bitwise_and(pairs, 15)}, 1).flatten();
  const at::Tensor names = both.narrow(0, 0, 105).to(at::kLong);
  const at::Tensor signs = 1 - 2 * at::floor_divide(names, 8).to(at::kFloat);
  const at::Tensor of_run = scales.index_select(0, at::floor_divide(at::arange(105, at::kLong), 64));
  const at::Tensor wanted = table.index_select(0, at::remainder(names, 8)) * signs * of_run;
  EXPECT_TRUE(at::equal(numbers_of(nibbles).flatten(), wanted));
}

TEST_F(PackedWeights, CodesAndScalesThatDoNotFitAreRefused) {
  Weight weight = primitives().new_weight(4, 64, {at::kFloat, WeightPacking{PackedCode::nf4}});
  const at::Tensor codes = at::zeros({128}, at::kByte), scales = at::ones({4});
  EXPECT_NO_THROW(primitives().fill_codes(weight, 0, {codes, scales}));
  EXPECT_THROW(primitives().fill_codes(weight, 0, {codes, at::ones({3})}), std::invalid_argument);
  EXPECT_THROW(primitives().fill_codes(weight, 1, {codes, scales}), std::invalid_argument);
  EXPECT_THROW(primitives().fill_codes(weight, 0, {codes.to(at::kChar), scales}), std::invalid_argument);
  EXPECT_THROW(primitives().fill_codes(weight, 0, {codes, scales.to(at::kDouble)}), std::invalid_argument);
  EXPECT_THROW(primitives().fill_codes(weight, 0, {at::zeros({100}, at::kByte), scales}), std::invalid_argument);
}

TEST_F(PackedWeights, RunsThatAreNoPowerOfTwoAreNotAvailable) {
  for (const std::int64_t run : {0, 16, 48, 8192}) {
    const WeightForm form{at::kFloat, WeightPacking{PackedCode::nf4, run}};
    EXPECT_FALSE(primitives().has_form(form));
    EXPECT_THROW(primitives().new_weight(4, 64, form), std::logic_error);
  }
}

TEST_F(PackedWeights, FourBitsTakeAnEighthAndTheirScales) {
  const Weight weight = primitives().new_weight(256, 1024, {at::kFloat, WeightPacking{PackedCode::nf4}});
  EXPECT_EQ(weight.storage.numel(), 256 * 1024 / 2 + 256 * 1024 / 64 * 4);
}

}  // namespace
}  // namespace muster::tensor
