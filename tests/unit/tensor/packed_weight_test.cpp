// Weights in 8 and 4 bits, and in 16 bits that stand for float32, against plain ones with the same numbers.
#include <gtest/gtest.h>

#include "tensor/device_ops.hpp"

namespace muster::tensor {
namespace {

using spec::PackedCode;
using spec::WeightPacking;

struct Device {
  at::Device device;
  bool deterministic;

  bool chains() const { return device.is_cpu() || deterministic; }  // Note [One chain per output]
};

std::vector<Device> devices() {
  std::vector<Device> found{{at::kCPU, false}};
  if (at::hasCUDA())
    for (const bool deterministic : {false, true}) found.push_back({at::Device(at::kCUDA, 0), deterministic});
  return found;
}

class PackedWeights : public testing::TestWithParam<Device> {
 protected:
  PackedWeights() {
    at::manual_seed(7);
    auto made = make_device_ops({GetParam().device, 2, spec::Attention::sdpa, GetParam().deterministic});
    EXPECT_TRUE(made) << (made ? "" : made.error().what);
    ops_ = std::move(*made);
  }

  Primitives& primitives() { return *ops_.primitives; }
  at::Tensor random(at::IntArrayRef sizes, at::ScalarType type) {
    return at::randn(sizes).to(GetParam().device, type);
  }
  // On the host: rows [first, last).
  at::Tensor numbers_of(const Weight& weight, std::int64_t first, std::int64_t last) {
    return primitives().take_rows(weight, at::arange(first, last, at::kLong).to(GetParam().device)).cpu();
  }
  at::Tensor numbers_of(const Weight& weight) { return numbers_of(weight, 0, weight.outputs); }
  Weight filled(const at::Tensor& rows, const WeightForm& form) {
    Weight weight = primitives().new_weight(rows.size(0), rows.size(1), form);
    primitives().fill_rows(weight, 0, rows);
    return weight;
  }
  static at::Tensor exact(const at::Tensor& tensor) { return tensor.to(at::kCPU, at::kDouble); }
  // In 16 bits a kernel that reads codes may round what they stand for, too.
  void expect_near(const at::Tensor& found, const at::Tensor& wanted) {
    const double tolerance = found.scalar_type() == at::kFloat ? 2e-5 : 4e-2;
    const at::Tensor apart = (exact(found) - wanted).abs() / (1 + wanted.abs());
    EXPECT_LE(apart.max().item<double>(), tolerance) << found.sizes();
  }
  // What has no chains is near what a plain weight gives, which other tests look at.
  void expect_same(const at::Tensor& found, const at::Tensor& wanted) {
    if (GetParam().chains())
      EXPECT_TRUE(at::equal(found, wanted));
    else
      expect_near(found, exact(wanted));
  }
  void expect_the_bits_of(const Weight& found, const Weight& wanted) {
    const at::Tensor bias = random({wanted.outputs}, wanted.type);
    std::vector<std::int64_t> counts{1, 3, 30};
    if (GetParam().device.is_cuda()) counts.insert(counts.end(), {2, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 600});
    for (const std::int64_t rows : counts) {
      const at::Tensor input = random({rows, wanted.inputs}, wanted.type);
      const at::Tensor gradient = random({rows, wanted.outputs}, wanted.type);
      expect_same(primitives().linear(found, bias, input), primitives().linear(wanted, bias, input));
      expect_same(primitives().linear_input_gradient(found, gradient),
                  primitives().linear_input_gradient(wanted, gradient));
      at::Tensor sum = random({rows, wanted.outputs}, wanted.type), other = sum.clone();
      primitives().linear_add(found, bias, input, sum, sum);
      primitives().linear_add(wanted, bias, input, other, other);
      expect_same(sum, other);
    }
  }

  DeviceOps ops_;
};

std::vector<WeightPacking> packings() {
  return {{PackedCode::int8}, {PackedCode::nf4}, {PackedCode::fp4}, {PackedCode::nf4, 4096}, {PackedCode::fp4, 32, true}};
}

TEST_P(PackedWeights, ProductsAreThoseOfAPlainWeightOfTheirType) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const WeightPacking& packing : packings())
      for (const auto& [outputs, inputs] : {std::pair<std::int64_t, std::int64_t>{40, 64}, {300, 576}, {51, 75}, {96, 1216}}) {
        const at::Tensor rows = at::randn({outputs, inputs}) / 10;
        Weight packed = filled(rows, {type, packing});
        primitives().round_scales(packed, 0, outputs);
        const at::Tensor numbers = numbers_of(packed);
        EXPECT_EQ(numbers.scalar_type(), type);
        EXPECT_LT((numbers - rows).abs().max().item<float>(), 0.2 * rows.abs().max().item<float>());
        expect_the_bits_of(packed, filled(numbers, type));
      }
}

// Where a device has a kernel for both, it does what they do one after the other.
TEST_P(PackedWeights, GatedProductsAreTheGatedActivationOfAProduct) {
  constexpr std::int64_t outputs = 80;
  for (const WeightPacking& packing : packings())
    for (const std::int64_t inputs : {64, 704})
      for (const bool biased : {false, true}) {
        const Weight weight = filled(at::randn({2 * outputs, inputs}) / 20, {at::kBFloat16, packing});
        const at::Tensor bias = biased ? random({2 * outputs}, at::kBFloat16) : at::Tensor();
        for (const std::int64_t rows : {1, 5, 9, 33, 64, 65}) {
          const at::Tensor input = random({rows, inputs}, at::kBFloat16);
          const at::Tensor found = primitives().gated_linear(spec::Activation::silu, weight, bias, input);
          const bool has_kernel =
              !GetParam().chains() && rows <= 64 && (packing.bits() == 8 || packing.run == 64);
          ASSERT_EQ(found.defined(), has_kernel);
          if (!has_kernel) continue;
          at::Tensor both = exact(input).matmul(exact(numbers_of(weight)).t());
          if (biased) both = both + exact(bias);
          const auto halves = both.chunk(2, -1);
          expect_near(found, halves[0] / (1 + at::exp(-halves[0])) * halves[1]);
        }
      }
}

TEST_P(PackedWeights, SixteenBitsMayStandForFloat32) {
  if (!primitives().has_form({at::kFloat, at::kHalf})) GTEST_SKIP() << "this device keeps what it computes with";
  for (const at::ScalarType kept : {at::kBFloat16, at::kHalf}) {
    const at::Tensor rows = at::randn({83, 300}).to(kept);
    const Weight narrow = filled(rows, {at::kFloat, kept}), wide = filled(rows.to(at::kFloat), at::kFloat);
    EXPECT_EQ(2 * narrow.storage.numel(), wide.storage.numel());
    EXPECT_TRUE(at::equal(numbers_of(narrow), rows.to(at::kFloat)));
    expect_the_bits_of(narrow, wide);
  }
}

TEST_P(PackedWeights, ATensorMayComeInPartsAndInAnyType) {
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
TEST_P(PackedWeights, TensorsOfOneMatrixAreRoundedEachByItself) {
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

TEST_P(PackedWeights, CodesThatAreKnownArePutInAsTheyAre) {
  Weight bytes = primitives().new_weight(5, 7, {at::kFloat, WeightPacking{PackedCode::int8}});
  const at::Tensor codes = at::randint(-127, 128, {3, 7}).to(at::kChar), most = at::rand({3});
  primitives().fill_codes(bytes, 2, {codes, most});
  const at::Tensor steps = most * (1.0F / 127.0F);
  EXPECT_TRUE(at::equal(numbers_of(bytes, 2, 5), codes.to(at::kFloat) * steps.unsqueeze(1)));

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

TEST_P(PackedWeights, CodesAndScalesThatDoNotFitAreRefused) {
  Weight weight = primitives().new_weight(4, 64, {at::kFloat, WeightPacking{PackedCode::nf4}});
  const at::Tensor codes = at::zeros({128}, at::kByte), scales = at::ones({4});
  EXPECT_NO_THROW(primitives().fill_codes(weight, 0, {codes, scales}));
  EXPECT_THROW(primitives().fill_codes(weight, 0, {codes, at::ones({3})}), std::invalid_argument);
  EXPECT_THROW(primitives().fill_codes(weight, 1, {codes, scales}), std::invalid_argument);
  EXPECT_THROW(primitives().fill_codes(weight, 0, {codes.to(at::kChar), scales}), std::invalid_argument);
  EXPECT_THROW(primitives().fill_codes(weight, 0, {codes, scales.to(at::kDouble)}), std::invalid_argument);
  EXPECT_THROW(primitives().fill_codes(weight, 0, {at::zeros({100}, at::kByte), scales}), std::invalid_argument);
}

TEST_P(PackedWeights, RunsThatAreNoPowerOfTwoAreNotAvailable) {
  for (const std::int64_t run : {0, 16, 48, 8192}) {
    const WeightForm form{at::kFloat, WeightPacking{PackedCode::nf4, run}};
    EXPECT_FALSE(primitives().has_form(form));
    EXPECT_THROW(primitives().new_weight(4, 64, form), std::logic_error);
  }
}

TEST_P(PackedWeights, FourBitsTakeAnEighthAndTheirScales) {
  const Weight weight = primitives().new_weight(256, 1024, {at::kFloat, WeightPacking{PackedCode::nf4}});
  EXPECT_EQ(weight.storage.numel(), 256 * 1024 / 2 + 256 * 1024 / 64 * 4);
}

INSTANTIATE_TEST_SUITE_P(Devices, PackedWeights, testing::ValuesIn(devices()), [](const auto& named) {
  return std::string(named.param.device.is_cuda() ? "Gpu" : "Cpu") + (named.param.deterministic ? "Deterministic" : "");
});

}  // namespace
}  // namespace muster::tensor
