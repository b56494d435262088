#include <fmt/format.h>

#include "base/text.hpp"
#include "checkpoint/gguf_source.hpp"
#include "checkpoint/quantized/quantized_source.hpp"
#include "checkpoint/safetensors_source.hpp"
#include "checkpoint/tensor_source.hpp"
#include "spec/model/model_source.hpp"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;

// The files of a checkpoint; of one shard that is named, all shards.
Result<std::vector<spec::CheckpointFile>> checkpoint_files(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return spec::read_checkpoint_headers(path);
  if (path.filename() != "model.safetensors") {
    auto beside = spec::read_checkpoint_headers(path.parent_path());
    if (!beside) return beside.error();
    for (const spec::CheckpointFile& file : *beside)
      if (file.path.filename() == path.filename()) return beside;
  }
  auto header = spec::read_safetensors_header(path);
  if (!header) return header.error();
  std::vector<spec::CheckpointFile> files;
  files.push_back({path, std::move(*header)});
  return files;
}

bool has_prefix(const std::vector<spec::CheckpointFile>& files, std::string_view prefix) {
  for (const spec::CheckpointFile& file : files)
    for (const spec::StoredTensor& tensor : file.header.tensors)
      if (tensor.name.starts_with(prefix)) return true;
  return false;
}

// Checkpoints of the inner model alone have its names without "model." in front.
std::vector<NamedTensor> stored_names(const spec::ModelShape& shape, const std::vector<spec::CheckpointFile>& files) {
  const std::string prefix = shape.modules[1].name + ".";
  const bool shortened = !has_prefix(files, prefix);
  std::vector<NamedTensor> names;
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    const spec::TensorShape& tensor = shape.tensors[i];
    if (tensor.kind == spec::TensorKind::derived || tensor.same_as) continue;
    const std::string name = shape.path(spec::TensorId{i});
    names.push_back({name, shortened && name.starts_with(prefix) ? name.substr(prefix.size()) : name});
  }
  return names;
}

Result<std::unique_ptr<TensorSource>> open_model_safetensors(const fs::path& path,
                                                             const spec::ModelDescription& model) {
  const auto files = checkpoint_files(path);
  if (!files) return files.error();
  if (model.config.quantization) {
    auto source = QuantizedSource::open(*files, model);
    if (!source) return source.error();
    return std::unique_ptr<TensorSource>(std::move(*source));
  }
  auto source = SafetensorsSource::open(*files, stored_names(model.shape, *files));
  if (!source) return source.error();
  for (std::size_t i = 0; i < model.shape.tensors.size(); ++i)
    if (const auto first = model.shape.tensors[i].same_as)
      (*source)->add_name(model.shape.path(spec::TensorId{i}), model.shape.path(*first));
  return std::unique_ptr<TensorSource>(std::move(*source));
}

}  // namespace

Result<std::unique_ptr<TensorSource>> open_checkpoint(const std::string& model, const spec::ModelSearch& search) {
  const auto path = spec::find_model(model, search);
  if (!path) return path.error();
  const auto description = spec::read_model(model, search, std::nullopt);
  if (!description) return description.error();
  if (!description->checkpoint_bytes)
    return Error{Error::Kind::bad_input, fmt::format("{}: a configuration without weights", path->string()),
                 "name a folder with model.safetensors, a .safetensors or a .gguf file"};
  std::error_code ignored;
  const bool gguf = to_lower(path->extension().string()) == ".gguf" && !fs::is_directory(*path, ignored);
  if (!gguf) return open_model_safetensors(*path, *description);
  auto source = GgufSource::open(*path, *description);
  if (!source) return source.error();
  return std::unique_ptr<TensorSource>(std::move(*source));
}

}  // namespace muster::checkpoint
