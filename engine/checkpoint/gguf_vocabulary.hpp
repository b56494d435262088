// The tokenizer that a GGUF file carries in its metadata, as plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "spec/model/gguf_header.hpp"

namespace muster::checkpoint {

enum class TokenKind : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct GgufVocabulary {
  std::string model;          // "gpt2", "llama"
  std::string pre_tokenizer;  // "smollm"; "default" where the file names none
  std::vector<std::string> tokens;
  std::vector<TokenKind> kinds;  // as many as tokens
  std::vector<double> scores;    // as many as tokens, or none
  std::vector<std::string> merges;
  std::optional<std::int64_t> begin, end, end_of_turn, unknown, padding;  // within tokens
  std::optional<bool> add_begin, add_end, add_space_prefix;
  std::optional<std::string> chat_template;
};

// Refused, with the key: lists that are missing or of different lengths, ids outside the tokens, tokens that appear
// twice.
Result<GgufVocabulary> read_gguf_vocabulary(const spec::GgufHeader& header, std::string_view source);

}  // namespace muster::checkpoint
