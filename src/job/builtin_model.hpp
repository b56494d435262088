// Small models that need no download: builtin:llama-0.6m and builtin:llama-0.2m. They have a shape and a tokenizer, and
// no weights.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.hpp"

namespace muster::job {

// The one used where none is named.
inline constexpr std::string_view builtin_model_name = "builtin:llama-0.6m";

// The same, trained until it gets most of the built-in sums right (halfway_model.hpp). Unlike the others it has weights.
inline constexpr std::string_view halfway_model_name = "builtin:llama-0.6m-halfway";

bool is_builtin_model(std::string_view name);

// The folder of a built-in model: config.json and its tokenizer's files. Created in cache if it does not exist.
Result<std::filesystem::path> builtin_model_folder(const std::filesystem::path& cache, std::string_view name);

}  // namespace muster::job
