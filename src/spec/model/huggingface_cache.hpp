// Models that were downloaded into the local Hugging Face cache, by their names on the hub.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.hpp"

namespace muster::spec {

// "Qwen/Qwen2-0.5B" or "gpt2": whether it can be the name of a model on the hub.
bool is_hub_name(const std::string& model);

// The folder with the model's files, as its branch main was downloaded last. Not there: an error that says which folder
// was searched and what is missing in it.
Result<std::filesystem::path> find_in_hub_cache(const std::string& model, const std::filesystem::path& hub_cache);

}  // namespace muster::spec
