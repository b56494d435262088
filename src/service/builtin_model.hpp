// builtin:llama-0.6m: a small model that needs no download. It has a shape and a tokenizer, and no weights.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.hpp"

namespace muster::service {

inline constexpr std::string_view builtin_model_name = "builtin:llama-0.6m";

// A folder of it: config.json and the files of its tokenizer. Made in cache where it is not there.
Result<std::filesystem::path> builtin_model_folder(const std::filesystem::path& cache);

}  // namespace muster::service
