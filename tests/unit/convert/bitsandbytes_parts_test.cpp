#include "convert/bitsandbytes_parts.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace muster::convert {
namespace {

using nlohmann::json;

CodedWeight weight(std::int64_t rows, std::int64_t columns, const spec::WeightPacking& packing) {
  return {.name = "model.layers.0.mlp.up_proj.weight",
          .rows = rows,
          .columns = columns,
          .packing = packing,
          .coded_from = spec::ElementType::bfloat16};
}

TEST(BitsAndBytesParts, TheStateHasOneLengthWhateverTheOffset) {
  const CodedWeight doubled = weight(300, 75, {.double_quantized = true});
  const auto declared = parts_of(doubled).back();
  EXPECT_EQ(declared.name, state_name(doubled));
  for (const float offset : {0.0F, 1.0F, -1.1754944e-38F, std::numeric_limits<float>::denorm_min(),
                             -std::numeric_limits<float>::max(), 0.1F, 0.012345679F}) {
    const std::string text = state_text(doubled, offset);
    EXPECT_EQ(std::ssize(text), declared.dimensions.sizes[0]) << text;
    EXPECT_EQ(static_cast<float>(json::parse(text)["nested_offset"].get<double>()), offset);
  }
}

TEST(BitsAndBytesParts, TheLastRunAndTheLastByteMayBeShort) {
  const CodedWeight odd = weight(3, 43, {});
  EXPECT_EQ(odd.runs(), 3);
  const auto parts = parts_of(odd);
  EXPECT_EQ(parts[0].dimensions, (spec::Dimensions{{65, 1}, 2}));
  EXPECT_EQ(parts[1].name, "model.layers.0.mlp.up_proj.weight.absmax");
  EXPECT_EQ(parts[1].dimensions, (spec::Dimensions{{3}, 1}));
}

TEST(BitsAndBytesParts, EightBitsHaveAScaleForEachRow) {
  const auto parts = parts_of(weight(7, 64, {.code = spec::PackedCode::int8}));
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[1].name, "model.layers.0.mlp.up_proj.SCB");
  EXPECT_EQ(parts[1].dimensions, (spec::Dimensions{{7}, 1}));
  EXPECT_EQ(parts[2].dimensions.rank, 0U);
}

}  // namespace
}  // namespace muster::convert
