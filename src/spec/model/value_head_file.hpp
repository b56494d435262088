// The file beside a model, or beside an adapter, with the head that says what is expected from a token on (ScoreUse::values):
// a later training by it goes on from there, and everything else passes it over.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "spec/model/model_source.hpp"

namespace muster::spec {

// "v_head.summary.weight" [1, hidden] and "v_head.summary.bias" [1], as TRL calls them.
inline constexpr std::string_view value_head_file = "value_head.safetensors";

// That of the first of these folders which has one; absent: none has. Refused: one that does not fit the model.
Result<std::optional<std::filesystem::path>> find_value_head(const std::vector<std::filesystem::path>& folders,
                                                             const ModelDescription& model);

}  // namespace muster::spec
