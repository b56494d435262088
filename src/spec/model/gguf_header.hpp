// The header of a GGUF file: its metadata, and the names, types, shapes and places of its tensors. No tensor is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "spec/model/model_config.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::spec {

// The encodings of GGUF tensors: elements come in blocks of block_elements that take block_bytes.
enum class GgufType { f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4 };
std::string_view name(GgufType type);  // "Q4_K"
struct GgufBlock {
  std::int64_t elements = 1;
  std::int64_t bytes = 4;
};
GgufBlock block_of(GgufType type);

// A list, by the type of its entries; only one of the three has any.
struct GgufArray;
using GgufValue = std::variant<std::int64_t, double, bool, std::string, GgufArray>;
struct GgufArray {
  std::vector<std::int64_t> integers;  // of an array of whole numbers or booleans
  std::vector<double> numbers;         // of an array of floats
  std::vector<std::string> texts;      // of an array of texts
  bool operator==(const GgufArray&) const = default;
};

struct GgufTensor {
  std::string name;  // "blk.0.attn_q.weight"
  GgufType type = GgufType::f32;
  Dimensions dimensions;    // in torch's order: GGUF's reversed
  std::size_t file = 0;     // of a model's files
  std::uint64_t begin = 0;  // bytes from its start
  std::uint64_t end = 0;
};

struct GgufHeader {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;
};

// Refused, with the reason: other files, versions before 2, big-endian files, lengths and counts beyond the file,
// unknown types, places that overlap or are outside the file, text that is not UTF-8, lists of lists.
Result<GgufHeader> read_gguf_header(const std::filesystem::path& file);

// The same from memory. beginning: the file's first bytes, at least to the end of its header where it has one.
Result<GgufHeader> parse_gguf_header(std::string_view beginning, std::uint64_t file_size, std::string_view source);

// The configuration that the metadata describes ("llama.block_count", …); an unknown architecture is refused
// by name. Whether head and embedding are tied, and which biases exist, follows from the tensors.
Result<ModelConfig> gguf_model_config(const GgufHeader& header, std::string_view source);

// Checks that a file has the tensors that a shape asks for, under GGUF's names; differences are named.
Result<void> check_gguf_tensors(const ModelShape& shape, const GgufHeader& header, std::string_view source);

}  // namespace muster::spec
