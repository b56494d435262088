// The config.json that transformers loads a model's folder with.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "spec/model/model_config.hpp"

namespace muster::spec {

// Ids of special tokens, which config.json and generation_config.json carry.
struct TokenIds {
  std::optional<std::int64_t> begin, padding;
  std::vector<std::int64_t> ends;  // any of them ends an answer; the first is the model's own
};

// config.json's keys of a model that scores, unless they say the same already: transformers takes the class and the number
// of labels from there.
void name_classifier(nlohmann::ordered_json& object, const ModelConfig& config);

// In the spelling that old and new versions of transformers read. parse_model_config gives the same configuration back.
// Refused: what the family's class in transformers cannot express (a sliding window of Llama, say).
Result<std::string> write_model_config(const ModelConfig& config, const TokenIds& tokens);

// generation_config.json with only these ids.
std::string write_generation_config(const TokenIds& tokens);

}  // namespace muster::spec
