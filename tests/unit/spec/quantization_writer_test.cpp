#include "spec/model/quantization_writer.hpp"

#include <gtest/gtest.h>

#include "spec/model/quantization_reader.hpp"

namespace muster::spec {
namespace {

TEST(QuantizationWriter, WhatIsWrittenIsReadAgain) {
  for (const PackedCode code : {PackedCode::int8, PackedCode::nf4, PackedCode::fp4})
    for (const bool doubled : {false, true}) {
      if (code == PackedCode::int8 && doubled) continue;
      const WeightPacking packing{.code = code, .double_quantized = doubled};
      const nlohmann::json section = write_quantization(packing, ElementType::bfloat16, std::nullopt);
      const auto read = read_quantization(section, "config.json");
      ASSERT_TRUE(read) << read.error().what;
      EXPECT_EQ(*read, CheckpointQuantization(BitsAndBytesQuantization{packing}));
      EXPECT_TRUE(section["llm_int8_skip_modules"].is_null());
    }
}

TEST(QuantizationWriter, NamesTheModulesThatAreSkipped) {
  const auto section = write_quantization({}, ElementType::float16, std::vector<std::string>{"down_proj", "lm_head"});
  EXPECT_EQ(section["llm_int8_skip_modules"], nlohmann::json({"down_proj", "lm_head"}));
  EXPECT_EQ(section["bnb_4bit_compute_dtype"], "float16");
}

}  // namespace
}  // namespace muster::spec
