// A trained model as a Hugging Face folder.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/byte_count.hpp"
#include "checkpoint/checkpoint_writer.hpp"
#include "checkpoint/model_texts.hpp"
#include "checkpoint/tensor_source.hpp"

namespace muster::checkpoint {

struct ExportRequest {
  std::filesystem::path folder;
  bool replace = false;  // a folder of that name; without this, such a folder is refused
  std::vector<NamedText> texts;
  std::vector<TensorDeclaration> tensors;
  ByteCount shard_size = gibibytes(4);
  std::string stem = "model";  // of the files with tensors
};

// What a folder of this model holds: every tensor but tied and derived ones, in the model's order.
std::vector<TensorDeclaration> tensors_to_export(const spec::ModelShape& shape, spec::ElementType type);

// Fills out with all numbers of a tensor, as the type that is declared. Called once for each, in the order of the
// request, so that several ranks can gather one after the other.
using PullTensor = std::function<Result<void>(const TensorDeclaration& tensor, std::span<std::byte> out)>;

// model.safetensors (or shards with their index) and the texts. The folder appears whole or not at all; one tensor is
// held at a time. Returns the bytes of the tensors.
Result<ByteCount> export_model(const ExportRequest& request, const PullTensor& pull);
// The same from a source, converted where it stores another type.
Result<ByteCount> export_model(const ExportRequest& request, const TensorSource& source);

}  // namespace muster::checkpoint
