// The header of a safetensors file: names, types, shapes and places of its tensors. No tensor is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "spec/model_shape.hpp"

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

// Refused, with the reason: a header that is cut off, absurdly long or no JSON; lengths that do not match type and
// shape; places that overlap, leave holes or lie outside of the file; duplicate names.
Result<SafetensorsHeader> read_safetensors_header(const std::filesystem::path& file);

// All tensors of a checkpoint folder: model.safetensors, or what model.safetensors.index.json lists. An index that
// points out of its folder, or disagrees with its files, is refused.
struct CheckpointFile {
  std::filesystem::path path;
  SafetensorsHeader header;
};
Result<std::vector<CheckpointFile>> read_checkpoint_headers(const std::filesystem::path& folder);

}  // namespace muster::spec
