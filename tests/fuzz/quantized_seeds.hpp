// Sound checkpoints of a tiny model, one for each way of quantising that is read, to be damaged.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint_bytes.hpp"

namespace muster {

struct QuantizedSeed {
  std::string settings;  // quantization_config
  std::string header;    // of the safetensors file
  std::string data;      // sound where a wrong number is refused, otherwise zeros
};

constexpr const char* quantized_config =
    R"({{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 32, "intermediate_size": 64,
         "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 5,
         "max_position_embeddings": 16, "tie_word_embeddings": true, "torch_dtype": "float16"{}}})";

// A tensor of a file; without content its bytes are zeros.
struct SeedTensor {
  std::string name;
  const char* type;
  std::size_t element;
  std::vector<std::int64_t> sizes;
  std::string content = {};
};
using SeedTensors = std::vector<SeedTensor>;
using MatrixParts = SeedTensors (*)(std::int64_t rows, std::int64_t columns);

template <class Number, class Value>
std::string numbers_of(std::int64_t count, Value value) {
  std::string bytes;
  for (std::int64_t i = 0; i < count; ++i) bytes += spec::testing::little_endian(static_cast<Number>(value(i)));
  return bytes;
}

inline SeedTensor json_bytes(const char* name, const std::string& text) {
  return {name, "U8", 1, {static_cast<std::int64_t>(text.size())}, text};
}

// What the codes stand for, in the bits of float32.
inline constexpr std::array<std::uint32_t, 16> nf4_table{0xbf800000, 0xbf3239b1, 0xbf066b30, 0xbeca32a0, 0xbe91a24d, 0xbe3d353f,
                                                         0xbdba7871, 0x00000000, 0x3da2faff, 0x3e24cae3, 0x3e7c04dd, 0x3ead033a,
                                                         0x3ee1a4b8, 0x3f1007ab, 0x3f3913b3, 0x3f800000};
inline constexpr std::array<std::uint32_t, 16> fp4_table{0x00000000, 0x3baaaaab, 0x3f2aaaab, 0x3f800000, 0x3eaaaaab, 0x3f000000,
                                                         0x3e2aaaab, 0x3e800000, 0x80000000, 0xbbaaaaab, 0xbf2aaaab, 0xbf800000,
                                                         0xbeaaaaab, 0xbf000000, 0xbe2aaaab, 0xbe800000};

inline SeedTensor table_of(const std::array<std::uint32_t, 16>& bits) {
  return {"weight.quant_map", "F32", 4, {16},
          numbers_of<std::uint32_t>(16, [&](std::int64_t i) { return bits[static_cast<std::size_t>(i)]; })};
}

inline SeedTensors nf4_parts(std::int64_t rows, std::int64_t columns) {
  const std::int64_t elements = rows * columns;
  return {{"weight", "U8", 1, {elements / 2, 1}},
          {"weight.absmax", "F32", 4, {elements / 64}},
          table_of(nf4_table),
          json_bytes("weight.quant_state.bitsandbytes__nf4",
                     fmt::format(R"({{"quant_type": "nf4", "blocksize": 64, "dtype": "float16", "shape": [{}, {}]}})", rows,
                                 columns))};
}

inline SeedTensors double_fp4_parts(std::int64_t rows, std::int64_t columns) {
  const std::int64_t elements = rows * columns;
  return {{"weight", "U8", 1, {elements / 2, 1}},
          {"weight.absmax", "U8", 1, {elements / 64}},
          table_of(fp4_table),
          {"weight.nested_absmax", "F32", 4, {(elements / 64 + 255) / 256}},
          {"weight.nested_quant_map", "F32", 4, {256}},
          json_bytes("weight.quant_state.bitsandbytes__fp4",
                     fmt::format(R"({{"quant_type": "fp4", "blocksize": 64, "dtype": "bfloat16", "shape": [{}, {}],
                                     "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.5}})",
                                 rows, columns))};
}

inline SeedTensors int8_parts(std::int64_t rows, std::int64_t columns) {
  return {{"weight", "I8", 1, {rows, columns}}, {"SCB", "F32", 4, {rows}}, {"weight_format", "U8", 1, {}}};
}

inline SeedTensors float8_parts(std::int64_t rows, std::int64_t columns) {
  return {{"weight", "F8_E4M3", 1, {rows, columns}}, {"weight_scale_inv", "F32", 4, {(rows + 23) / 24, (columns + 23) / 24}}};
}

inline SeedTensors packed_parts(std::int64_t rows, std::int64_t columns) {
  return {{"weight_packed", "I32", 4, {rows, columns / 8}},
          {"weight_scale", "F16", 2, {rows, columns / 16}},
          {"weight_zero_point", "I32", 4, {rows / 8, columns / 16}},
          {"weight_g_idx", "I32", 4, {columns}, numbers_of<std::int32_t>(columns, [](std::int64_t i) { return i % 2; })},
          {"weight_shape", "I64", 8, {2}, numbers_of<std::int64_t>(2, [&](std::int64_t i) { return i == 0 ? rows : columns; })}};
}

inline SeedTensors whole_parts(std::int64_t rows, std::int64_t columns) {
  return {{"weight", "I8", 1, {rows, columns}}, {"weight_scale", "BF16", 2, {rows, 1}}, {"weight_zero_point", "I8", 1, {rows, 1}}};
}

inline SeedTensors mxfp4_parts(std::int64_t rows, std::int64_t columns) {
  return {{"weight_packed", "U8", 1, {rows, columns / 2}}, {"weight_scale", "U8", 1, {rows, columns / 32}}};
}

template <int bits>
SeedTensors gptq_parts(std::int64_t rows, std::int64_t columns) {
  return {{"qweight", "I32", 4, {columns * bits / 32, rows}},
          {"qzeros", "I32", 4, {columns / 16, (rows * bits + 31) / 32}},
          {"scales", "F16", 2, {columns / 16, rows}},
          {"g_idx", "I32", 4, {columns}, numbers_of<std::int32_t>(columns, [](std::int64_t i) { return (i * 7) % 2; })}};
}

inline SeedTensors gemm_parts(std::int64_t rows, std::int64_t columns) {
  return {{"qweight", "I32", 4, {columns, rows / 8}},
          {"qzeros", "I32", 4, {columns / 16, rows / 8}},
          {"scales", "F16", 2, {columns / 16, rows}}};
}

inline SeedTensors gemv_parts(std::int64_t rows, std::int64_t columns) {
  return {{"qweight", "I32", 4, {rows, columns / 8}}, {"qzeros", "I32", 4, {rows, 4}}, {"scales", "F16", 2, {rows, 32}}};
}

inline QuantizedSeed quantized_seed(const char* settings, MatrixParts parts_of) {
  QuantizedSeed seed{settings, {}, {}};
  nlohmann::json header{{"__metadata__", {{"format", "pt"}}}};
  const auto add = [&](SeedTensor tensor) {
    std::size_t bytes = tensor.element;
    for (const std::int64_t size : tensor.sizes) bytes *= static_cast<std::size_t>(size);
    const std::size_t begin = seed.data.size();
    tensor.content.resize(bytes, '\0');
    seed.data += tensor.content;
    header[tensor.name] = {{"dtype", tensor.type}, {"shape", tensor.sizes}, {"data_offsets", {begin, begin + bytes}}};
  };
  struct Linear {
    const char* name;
    std::int64_t rows, columns;
  };
  const std::string block = "model.layers.0.";
  for (const auto& [name, rows, columns] :
       {Linear{"self_attn.q_proj.", 32, 32}, Linear{"self_attn.k_proj.", 16, 32}, Linear{"self_attn.v_proj.", 16, 32},
        Linear{"self_attn.o_proj.", 32, 32}, Linear{"mlp.gate_proj.", 64, 32}, Linear{"mlp.up_proj.", 64, 32},
        Linear{"mlp.down_proj.", 32, 64}})
    for (SeedTensor part : parts_of(rows, columns)) {
      part.name = block + name + part.name;
      add(std::move(part));
    }
  add({"model.embed_tokens.weight", "F16", 2, {5, 32}});
  for (const char* name : {"model.norm.weight", "model.layers.0.input_layernorm.weight",
                           "model.layers.0.post_attention_layernorm.weight"})
    add({name, "F16", 2, {32}});
  seed.header = header.dump();
  return seed;
}

inline std::vector<QuantizedSeed> quantized_seeds() {
  return {
      quantized_seed(R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"})", nf4_parts),
      quantized_seed(R"({"load_in_4bit": true, "bnb_4bit_use_double_quant": true})", double_fp4_parts),
      quantized_seed(R"({"quant_method": "bitsandbytes", "load_in_8bit": true})", int8_parts),
      quantized_seed(R"({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [24, 24]})", float8_parts),
      quantized_seed(R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"g": {"weights":
                        {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 16, "symmetric": false}}}})",
                     packed_parts),
      quantized_seed(R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"g": {"weights":
                        {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": false}}}})",
                     whole_parts),
      quantized_seed(R"({"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "config_groups": {"g":
                        {"weights": {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}}}})",
                     mxfp4_parts),
      quantized_seed(R"({"quant_method": "gptq", "bits": 4, "group_size": 16, "sym": false, "desc_act": true})", gptq_parts<4>),
      quantized_seed(R"({"quant_method": "gptq", "bits": 3, "group_size": 16, "checkpoint_format": "gptq_v2"})", gptq_parts<3>),
      quantized_seed(R"({"quant_method": "awq", "bits": 4, "group_size": 16, "version": "gemm"})", gemm_parts),
      quantized_seed(R"({"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemv"})", gemv_parts)};
}

}  // namespace muster
