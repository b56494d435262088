// The header of a safetensors file: names, types, shapes and places of its tensors. No tensor is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::spec {

struct StoredTensor {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  ElementType type = ElementType::float32;
  Dimensions dimensions;
  std::uint64_t begin = 0;  // bytes from the start of the file
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // by place in the file
  std::map<std::string, std::string> metadata;
};

// Refused, with the reason: a header that is cut off, longer than 100 MB or not JSON; lengths that do not match type
// and shape; places that overlap, leave holes or are outside the file; duplicate names; more than four dimensions.
Result<SafetensorsHeader> read_safetensors_header(const std::filesystem::path& file);

// The same from memory. beginning: the file's first bytes, at least to the end of its header where it has one.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view beginning, std::uint64_t file_size,
                                                   std::string_view source);

struct CheckpointFile {
  std::filesystem::path path;
  SafetensorsHeader header;
};

// All tensors of a checkpoint folder: model.safetensors, or what model.safetensors.index.json lists, or else AutoGPTQ's
// only gptq_model-….safetensors; none if there is none of these. An index that points out of its folder, or disagrees with
// its files, is refused.
Result<std::vector<CheckpointFile>> read_checkpoint_headers(const std::filesystem::path& folder);

}  // namespace muster::spec
