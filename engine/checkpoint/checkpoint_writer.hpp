// Writes tensors into safetensors files, one after the other, without ever holding two.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_count.hpp"
#include "system/file_descriptor.hpp"
#include "system/staged_folder.hpp"
#include "spec/element_type.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::checkpoint {

struct TensorDeclaration {
  std::string name;
  spec::ElementType type = spec::ElementType::float32;
  spec::Dimensions dimensions;
};

// Writes model.safetensors, or model-00001-of-0000N.safetensors with their index where one file would be larger than
// shard_size (one tensor that is larger has a file of its own): the same bytes that safetensors' and transformers' own
// writers give. All of it, and what else is put into the folder, appears at once with finish(); before that there is
// nothing under the folder's name, and without finish() nothing is left behind.
class CheckpointWriter {
 public:
  // The folder must not exist. Refused: two tensors of one name, or one that no safetensors file can hold. stem: what
  // the files are called, "adapter_model" for adapter_model.safetensors.
  static Result<CheckpointWriter> create(const std::filesystem::path& folder, std::vector<TensorDeclaration> tensors,
                                         ByteCount shard_size, std::string_view stem = "model");

  // The whole tensor; in any order, each once.
  Result<void> write(std::string_view name, std::span<const std::byte> bytes);
  // A part of a tensor that starts at that byte of it; parts may come in any order and must not overlap.
  Result<void> write_part(std::string_view name, std::uint64_t offset, std::span<const std::byte> bytes);
  // Another file of the folder, or of one within it: config.json, additional_chat_templates/rag.jinja.
  Result<void> add_file(std::string_view name, std::string_view text);
  // Refused while a declared tensor lacks bytes.
  Result<void> finish();

 private:
  struct Place {
    std::size_t shard = 0;
    std::uint64_t begin = 0;  // in the file
    std::uint64_t bytes = 0;
    std::uint64_t written = 0;
  };
  struct Shard;

  explicit CheckpointWriter(StagedFolder folder) : folder_(std::move(folder)) {}
  static std::vector<Shard> cut(const std::vector<TensorDeclaration>& tensors, std::uint64_t shard_bytes);
  Result<void> start_shards(const std::vector<Shard>& shards, std::string_view stem);

  StagedFolder folder_;
  std::vector<FileDescriptor> files_;
  std::map<std::string, Place, std::less<>> places_;
};

}  // namespace muster::checkpoint
