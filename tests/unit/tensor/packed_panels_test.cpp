// A packed weight's memory as a GPU has it, against the CPU's kernels, which read the same numbers out of their own.
#include "tensor/packed_panels.hpp"

#include <gtest/gtest.h>

#include "tensor/cpu_packed_weight.hpp"
#include "tensor/device_ops.hpp"

namespace muster::spec {

// Tests are listed with this, and not with its bytes.
void PrintTo(const WeightPacking& packing, std::ostream* out) {
  *out << (packing.bits() == 8 ? "8 bits" : "4 bits in runs of ") << (packing.bits() == 8 ? "" : std::to_string(packing.run));
}

}  // namespace muster::spec

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

  static WeightForm form() { return {at::kFloat, GetParam()}; }
  Weight filled(const at::Tensor& rows) {
    Weight weight = ops_.primitives->new_weight(rows.size(0), rows.size(1), form());
    ops_.primitives->fill_rows(weight, 0, rows);
    return weight;
  }
  static Weight in_words(std::int64_t outputs, std::int64_t inputs) {
    const std::int64_t bytes = word_places(outputs, inputs, form()).bytes;
    return {outputs, inputs, at::kFloat, at::empty({bytes}, at::kByte), GetParam()};
  }
  at::Tensor numbers_of(const Weight& on_host) {
    return ops_.primitives->take_rows(on_host, at::arange(on_host.outputs, at::kLong));
  }
  // As numbers_of: words of 8 bits are put back, byte by byte; all else lies alike.
  at::Tensor numbers_in_words(const Weight& weight) {
    if (GetParam().code != PackedCode::int8) return numbers_of(weight);
    const WordPlaces places = word_places(weight.outputs, weight.inputs, weight.form());
    const at::Tensor words = weight.storage.narrow(0, 0, places.scales).view({(weight.outputs + 15) / 16, -1, 16, 4});
    const at::Tensor bytes = words.transpose(2, 3).flatten(1, 2).narrow(1, 0, weight.inputs).flatten();
    Weight on_host = weight;
    on_host.storage = at::cat({bytes, weight.storage.narrow(0, places.scales, places.bytes - places.scales)});
    EXPECT_EQ(on_host.storage.numel(), packed_bytes(weight.outputs, weight.inputs, form()));
    return numbers_of(on_host);
  }

  DeviceOps ops_;
};

constexpr std::pair<std::int64_t, std::int64_t> sizes[] = {{16, 64}, {40, 64}, {301, 576}, {51, 75}, {3, 9}};

// As they are read: in slices that begin at a cut, of one tensor or of several.
TEST_P(PackedPanels, RowsAreCopiedToWhereTheyBelong) {
  for (const auto& [outputs, inputs] : sizes)
    for (const std::int64_t tensors : {1, 3}) {
      const Weight part = filled(at::randn({outputs, inputs}));
      const Weight whole = in_words(tensors * outputs, inputs);
      for (std::int64_t i = 0; i < tensors; ++i) copy_packed_rows(whole, i * outputs, part);
      EXPECT_TRUE(at::equal(numbers_in_words(whole), numbers_of(part).repeat({tensors, 1})));
    }
}

TEST_P(PackedPanels, ScalesAreReplacedAlone) {
  const at::Tensor rows = at::randn({40, 75});
  const Weight weight = in_words(40, 75), larger = in_words(40, 75);
  copy_packed_rows(weight, 0, filled(rows));
  copy_packed_rows(larger, 0, filled(2 * rows));
  const at::Tensor before = numbers_in_words(weight);
  copy_packed_scales(weight, larger);
  EXPECT_TRUE(at::equal(numbers_in_words(weight), 2 * before));
}

INSTANTIATE_TEST_SUITE_P(Forms, PackedPanels,
                         testing::Values(WeightPacking{PackedCode::int8}, WeightPacking{PackedCode::nf4},
                                         WeightPacking{PackedCode::fp4, 32}, WeightPacking{PackedCode::nf4, 4096}),
                         [](const auto& name) { return std::to_string(name.index); });

}  // namespace
}  // namespace muster::tensor
