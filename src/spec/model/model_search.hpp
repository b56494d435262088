// From the user's name for a model to the folder or file that holds it.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.hpp"

namespace muster::spec {

// Where names are looked up.
struct ModelSearch {
  std::filesystem::path hub_cache;
  std::filesystem::path store = {};  // for what muster model get has fetched; empty: none
};
// The cache: HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
// The store: MUSTER_MODELS, else XDG_DATA_HOME/muster/models, else ~/.local/share/muster/models.
ModelSearch model_search_from_environment();

// A path as it is; else a name in the store, else a name in the cache. The result is a folder, or a file in one: the
// first part of a GGUF model that was split, where the folder holds no other, or a name's only GGUF file. If missing: an
// error that says where it was looked for.
Result<std::filesystem::path> find_model(const std::string& model, const ModelSearch& search);

// The folder or GGUF file of a name in the store; an error that says what is missing.
Result<std::filesystem::path> find_in_store(const std::string& model, const std::filesystem::path& store);

}  // namespace muster::spec
