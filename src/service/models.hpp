// The models at hand: in the store and in the Hugging Face cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_count.hpp"
#include "spec/model/model_search.hpp"

namespace muster::service {

enum class ModelPlace { store, hub_cache };
std::string_view name(ModelPlace place);  // "store", "hub cache"

struct ModelAtHand {
  std::string name;  // as -m takes it
  ModelPlace place = ModelPlace::store;
  std::filesystem::path path;  // folder or file; empty where it is not known
  ByteCount bytes;             // on disk
  std::optional<std::string> family;
  std::optional<std::int64_t> parameters;
  std::optional<std::string> problem;  // why it cannot be used, in one line
};

// By place and name. Folders that are not models are left out; models that cannot be used are listed with the reason.
std::vector<ModelAtHand> models_at_hand(const spec::ModelSearch& search);

std::string models_text(const std::vector<ModelAtHand>& models, const spec::ModelSearch& search, bool colour);
// {"models": [{"name", "place", "path", "bytes", "family", "parameters", "problem"}], "available": [{"name", "title",
// "bytes", "licence"}]}; what is not known is null.
std::string models_json(const std::vector<ModelAtHand>& models);

}  // namespace muster::service
