#include "spec/model/quantized/quantization_reader.hpp"

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
  EXPECT_EQ(accepted<Read>(compressed("mxfp4-pack-quantized", R"({"num_bits": 4, "type": "float", "strategy": "group",
                                                                  "group_size": 32})")),
            (Read{Read::Form::small_floating, 4, Read::Sharing::group, {1, 32}, true}));
  EXPECT_EQ(accepted<Read>(compressed("naive-quantized", R"({"num_bits": 8, "type": "float", "strategy": "tensor"})"))
                .form,
            Read::Form::floating);
}

TEST(QuantizationReader, RefusesOtherFormsOfCompressedTensorsByTheirName) {
  const std::string weights = R"({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32})";
  for (const char* format : {"nvfp4-pack-quantized", "mxfp8-quantized", "marlin-24", "mixed-precision", "dense"})
    EXPECT_TRUE(contains(refused(compressed(format, weights)), fmt::format("format: is \"{}\", which is not read", format),
                         "pack-quantized"));
  EXPECT_TRUE(contains(refused(compressed("pack-quantized", R"({"num_bits": 9, "type": "int"})")), "num_bits: is 9"));
  EXPECT_TRUE(contains(refused(compressed("float-quantized", R"({"num_bits": 4, "type": "float"})")),
                       "\"float\" of 4 bits, which this format does not hold"));
  EXPECT_TRUE(contains(refused(compressed("mxfp4-pack-quantized", R"({"num_bits": 4, "type": "float",
                                                                      "strategy": "group", "group_size": 16})")),
                       "group_size: is not 32", "groups of 32"));
  EXPECT_TRUE(contains(refused(compressed("mxfp4-pack-quantized", R"({"num_bits": 4, "type": "int"})")),
                       "\"int\" of 4 bits, which this format does not hold"));
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

std::string gptq(std::string_view more) { return fmt::format(R"({{"quant_method": "gptq"{}}})", more); }

TEST(QuantizationReader, KnowsBothVersionsOfGptq) {
  using Read = GptqQuantization;
  EXPECT_EQ(accepted<Read>(gptq(R"(, "bits": 3, "group_size": 32, "sym": false, "desc_act": true, "damp_percent": 0.1,
                                   "lm_head": false, "dynamic": {}, "checkpoint_format": "gptq_v2")")),
            (Read{.bits = 3, .group = 32, .zeros_less_one = false, .symmetric = false, .ordered = true}));
  EXPECT_EQ(accepted<Read>(gptq("")), (Read{.bits = 4, .group = 128}));
  EXPECT_EQ(accepted<Read>(gptq(R"(, "bits": 8, "group_size": -1, "format": "gptq_v2", "dynamic": null,
                                   "is_marlin_format": false, "pack_dtype": "int32")")),
            (Read{.bits = 8, .group = std::nullopt, .zeros_less_one = false}));
  EXPECT_FALSE(accepted<Read>(R"({"method": "gptq", "checkpoint_format": "GPTQ_V2"})").zeros_less_one);
}

TEST(QuantizationReader, RefusesOtherFormsOfGptqByTheirName) {
  for (const char* format : {"marlin", "bitblas", "gptq_p", "qqq"})
    EXPECT_TRUE(contains(refused(gptq(fmt::format(R"(, "checkpoint_format": "{}")", format))),
                         fmt::format("checkpoint_format: is \"{}\", which is not read", format), "gptq, gptq_v2"));
  EXPECT_TRUE(contains(refused(gptq(R"(, "is_marlin_format": true)")), "is \"marlin\", which is not read"));
  for (const int bits : {1, 5, 6, 7})
    EXPECT_TRUE(contains(refused(gptq(fmt::format(R"(, "bits": {})", bits))), fmt::format("bits: is {}", bits),
                         "2, 3, 4, 8"));
  EXPECT_TRUE(contains(refused(gptq(R"(, "bits": "4")")), "bits: is \"4\""));
  for (const char* size : {"0", "-2", "\"128\"", "99999999999"})
    EXPECT_TRUE(contains(refused(gptq(fmt::format(R"(, "group_size": {})", size))), "group_size: is", "or -1"));
  EXPECT_TRUE(contains(refused(gptq(R"(, "dynamic": {"-:.*down.*": {}})")), "dynamic: is there", "another checkpoint"));
  EXPECT_TRUE(contains(refused(gptq(R"(, "rotation": "hadamard")")), "rotation: is there"));
  EXPECT_TRUE(contains(refused(gptq(R"(, "pack_dtype": "int16")")), "pack_dtype: is \"int16\"", "int32"));
}

TEST(QuantizationReader, KnowsBothLayoutsOfAwq) {
  using Read = AwqQuantization;
  EXPECT_EQ(accepted<Read>(R"({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": false,
                               "version": "GEMV", "modules_to_not_convert": ["lm_head"]})"),
            (Read{Read::Layout::by_outputs, 64}));
  EXPECT_EQ(accepted<Read>(R"({"quant_method": "awq", "w_bit": 4, "q_group_size": -1, "format": "gemm"})"),
            (Read{Read::Layout::by_inputs, std::nullopt}));
  EXPECT_EQ(accepted<Read>(R"({"quant_method": "awq"})"), (Read{Read::Layout::by_inputs, 128}));
  for (const char* version : {"gemv_fast", "marlin", "exllama", "llm-awq"})
    EXPECT_TRUE(contains(refused(fmt::format(R"({{"quant_method": "awq", "version": "{}"}})", version)),
                         fmt::format("version: is \"{}\", which is not read", version), "gemm, gemv"));
  EXPECT_TRUE(contains(refused(R"({"quant_method": "awq", "bits": 3})"), "bits: is 3", "accepted: 4"));
}

}  // namespace
}  // namespace muster::spec
