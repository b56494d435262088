#include "convert/quantization_config.hpp"

#include <gtest/gtest.h>

#include "spec/model/quantized/quantization_reader.hpp"

namespace muster::convert {
namespace {

using spec::ElementType;
using spec::PackedCode;
using spec::WeightPacking;

TEST(QuantizationConfig, WhatIsWrittenIsReadAgain) {
  for (const PackedCode code : {PackedCode::int8, PackedCode::nf4, PackedCode::fp4})
    for (const bool doubled : {false, true}) {
      if (code == PackedCode::int8 && doubled) continue;
      const WeightPacking packing{.code = code, .double_quantized = doubled};
      const nlohmann::json section = quantization_config(packing, ElementType::bfloat16, std::nullopt);
      const auto read = spec::read_quantization(section, "config.json");
      ASSERT_TRUE(read) << read.error().what;
      EXPECT_EQ(*read, spec::CheckpointQuantization(spec::BitsAndBytesQuantization{packing}));
      EXPECT_TRUE(section["llm_int8_skip_modules"].is_null());
    }
}

TEST(QuantizationConfig, NamesTheModulesThatAreSkipped) {
  const auto section = quantization_config({}, ElementType::float16, std::vector<std::string>{"down_proj", "lm_head"});
  EXPECT_EQ(section["llm_int8_skip_modules"], nlohmann::json({"down_proj", "lm_head"}));
  EXPECT_EQ(section["bnb_4bit_compute_dtype"], "float16");
}

}  // namespace
}  // namespace muster::convert
