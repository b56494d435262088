#include "spec/model/quantization_reader.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "spec/model/model_config.hpp"
#include "testing/contains.hpp"

namespace muster::spec {
namespace {

using muster::testing::contains;

Result<CheckpointQuantization> read(std::string_view section) {
  return read_quantization(nlohmann::json::parse(section), "config.json");
}
template <class Method>
Method accepted(std::string_view section) {
  const auto quantization = read(section);
  EXPECT_TRUE(quantization) << to_string(quantization.error());
  return quantization ? std::get<Method>(*quantization) : Method{};
}
std::string refused(std::string_view section) {
  const auto quantization = read(section);
  EXPECT_FALSE(quantization) << "it was accepted";
  return quantization ? "" : to_string(quantization.error());
}

TEST(QuantizationReader, IsAskedForTheSectionOfAConfiguration) {
  const auto plain = parse_model_config(R"({"model_type": "llama", "quantization_config": null})", "config.json");
  ASSERT_TRUE(plain);
  EXPECT_FALSE(plain->quantization);
  const auto packed = parse_model_config(
      R"({"model_type": "llama", "quantization_config": {"load_in_4bit": true}})", "config.json");
  ASSERT_TRUE(packed);
  EXPECT_EQ(method_name(*packed->quantization), "bitsandbytes");
  const auto wrong = parse_model_config(R"({"model_type": "llama", "quantization_config": 4})", "config.json");
  ASSERT_FALSE(wrong);
  EXPECT_TRUE(contains(to_string(wrong.error()), "quantization_config: is 4", "an object"));
}

TEST(QuantizationReader, RefusesMethodsThatItDoesNotKnowByTheirName) {
  for (const char* name : {"exl2", "hqq", "mxfp4", "quanto", "eetq", "higgs"})
    EXPECT_TRUE(contains(refused(fmt::format(R"({{"quant_method": "{}"}})", name)),
                         fmt::format("quantised by \"{}\", which is not read", name), "not quantised", "bitsandbytes"));
  EXPECT_TRUE(contains(refused(R"({"quant_method": 7})"), "quantised by \"7\""));
  EXPECT_TRUE(contains(refused("{}"), "a method without a name"));
}

TEST(QuantizationReader, KnowsTheFormsOfBitsAndBytes) {
  using Read = BitsAndBytesQuantization;
  const auto eight = accepted<Read>(R"({"quant_method": "bitsandbytes", "load_in_8bit": true, "load_in_4bit": false,
                                        "llm_int8_threshold": 6.0, "llm_int8_skip_modules": null})");
  EXPECT_EQ(eight.packing.code, PackedCode::int8);
  const auto usual = accepted<Read>(R"({"quant_method": "bitsandbytes", "_load_in_4bit": true})");
  EXPECT_EQ(usual.packing, (WeightPacking{PackedCode::fp4, 64, false}));
  const auto small = accepted<Read>(R"({"load_in_4bit": true, "_load_in_4bit": true, "bnb_4bit_quant_type": "nf4",
                                        "bnb_4bit_use_double_quant": true})");
  EXPECT_EQ(small.packing, (WeightPacking{PackedCode::nf4, 64, true}));
  EXPECT_TRUE(contains(refused(R"({"quant_method": "bitsandbytes"})"), "load_in_8bit are not true"));
  EXPECT_TRUE(contains(refused(R"({"load_in_4bit": true, "load_in_8bit": true})"), "are both true"));
  EXPECT_TRUE(contains(refused(R"({"load_in_4bit": true, "_load_in_4bit": false})"), "which means the same"));
  EXPECT_TRUE(contains(refused(R"({"load_in_4bit": true, "bnb_4bit_quant_type": "nf3"})"),
                       "config.json: quantization_config: bnb_4bit_quant_type: is \"nf3\"", "nf4, fp4"));
}

TEST(QuantizationReader, KnowsTheBlocksOfFloat8) {
  using Read = Float8Quantization;
  EXPECT_EQ(accepted<Read>(R"({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 64],
                               "activation_scheme": "dynamic"})"),
            (Read{ScaleBlock{128, 64}}));
  EXPECT_EQ(accepted<Read>(R"({"quant_method": "fp8", "weight_block_size": null})"), Read{});
  EXPECT_TRUE(contains(refused(R"({"quant_method": "fp8", "weight_block_size": [128, 0]})"),
                       "weight_block_size: is [128,0]", "two whole numbers"));
  EXPECT_TRUE(contains(refused(R"({"quant_method": "fp8", "weight_block_size": [128]})"), "weight_block_size: is [128]"));
  EXPECT_TRUE(contains(refused(R"({"quant_method": "fp8", "fmt": "e3m4"})"), "fmt: is \"e3m4\""));
}

std::string compressed(std::string_view format, std::string_view weights, std::string_view more = "") {
  return fmt::format(R"({{"quant_method": "compressed-tensors", "format": "{}", "ignore": ["lm_head"], {}
                          "quantization_status": "compressed",
                          "config_groups": {{"group_0": {{"targets": ["Linear"], "weights": {}}}}}}})",
                     format, more, weights);
}

TEST(QuantizationReader, KnowsTheFormatsOfCompressedTensors) {
  using Read = CompressedQuantization;
  EXPECT_EQ(accepted<Read>(compressed("pack-quantized", R"({"num_bits": 4, "type": "int", "strategy": "group",
                                                            "group_size": 32, "symmetric": false})")),
            (Read{Read::Form::packed, 4, Read::Sharing::group, {1, 32}, false}));
  EXPECT_EQ(accepted<Read>(compressed("int-quantized", R"({"num_bits": 8, "type": "int", "strategy": "channel"})")),
            (Read{Read::Form::whole, 8, Read::Sharing::row, {}, true}));
  EXPECT_EQ(accepted<Read>(compressed("float-quantized", R"({"num_bits": 8, "type": "float", "strategy": "block",
                                                             "block_structure": [128, 64]})")),
            (Read{Read::Form::floating, 8, Read::Sharing::block, {128, 64}, true}));
  EXPECT_EQ(accepted<Read>(compressed("naive-quantized", R"({"num_bits": 8, "type": "float", "strategy": "tensor"})"))
                .form,
            Read::Form::floating);
}

TEST(QuantizationReader, RefusesOtherFormsOfCompressedTensorsByTheirName) {
  const std::string weights = R"({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32})";
  for (const char* format : {"nvfp4-pack-quantized", "mxfp4-pack-quantized", "marlin-24", "mixed-precision", "dense"})
    EXPECT_TRUE(contains(refused(compressed(format, weights)), fmt::format("format: is \"{}\", which is not read", format),
                         "pack-quantized"));
  EXPECT_TRUE(contains(refused(compressed("pack-quantized", R"({"num_bits": 9, "type": "int"})")), "num_bits: is 9"));
  EXPECT_TRUE(contains(refused(compressed("float-quantized", R"({"num_bits": 4, "type": "float"})")),
                       "\"float\" of 4 bits, which this format does not hold"));
  EXPECT_TRUE(contains(refused(compressed("pack-quantized", R"({"num_bits": 4, "strategy": "tensor_group"})")),
                       "strategy: is \"tensor_group\""));
  EXPECT_TRUE(contains(refused(compressed("pack-quantized", weights, R"("sparsity_config": {"format": "sparse-bitmask"},)")),
                       "sparsity_config: is there"));
  const std::string two = R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups":
      {"a": {"weights": {"num_bits": 4, "type": "int"}}, "b": {"weights": {"num_bits": 8, "type": "int"}}}})";
  EXPECT_TRUE(contains(refused(two), "groups whose weights differ"));
  EXPECT_TRUE(contains(refused(R"({"quant_method": "compressed-tensors", "format": "pack-quantized"})"),
                       "config_groups: is missing"));
}

}  // namespace
}  // namespace muster::spec
