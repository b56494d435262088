// The text of a tokenizer.json, taken apart: vocabulary and merges, which are most of it, go where they belong at once;
// the rest becomes a small document.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "tokenizer/vocabulary.hpp"

namespace muster::tokenizer {

struct TokenizerDocument {
  nlohmann::json rest;  // without model.vocab and model.merges, where these are of the kinds that BPE has
  Vocabulary vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;
  bool has_vocabulary = false, has_merges = false;
};

// Refused, with the place: what is not a JSON object, names a key twice, is nested deeper than any such file, or has a
// vocabulary or merges that make no sense.
Result<TokenizerDocument> parse_document(std::string_view text, std::string_view source);

}  // namespace muster::tokenizer
