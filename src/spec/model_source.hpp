// From what a user calls a model to its shape: a folder, a config.json, a checkpoint file, a name in the local Hugging
// Face cache, or only a size.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "spec/model_config.hpp"
#include "spec/model_shape.hpp"

namespace muster::spec {

// Where names are looked up: HF_HUB_CACHE, HF_HOME/hub or ~/.cache/huggingface/hub.
struct ModelSearch {
  std::filesystem::path hub_cache;
};
ModelSearch model_search_from_environment();

struct ModelDescription {
  std::string name;  // as the user wrote it, for messages
  ModelConfig config;
  ModelShape shape;
  ElementType dtype;                             // of the checkpoint; float32 when no file tells
  std::optional<std::int64_t> checkpoint_bytes;  // what the files' tensors take, where there are files
  bool typical = false;                          // made up from a size alone
  std::vector<std::string> notes;                // what the user should know
};

// Each is refused with where it was looked for. Where there are checkpoint files beside the config, their headers must
// have the tensors the config asks for; what disagrees is named. dtype: the type to hold the weights in; absent: the
// checkpoint's.
Result<ModelDescription> read_model(const std::string& model, const ModelSearch& search,
                                    std::optional<ElementType> dtype);
Result<ModelDescription> model_of_size(std::int64_t parameters, std::optional<ElementType> dtype);

}  // namespace muster::spec
