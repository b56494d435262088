// Where in a text its tokens stand.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "tokenizer/tokenizer.hpp"

namespace muster::data {

// Bytes of the text. A token that is part of a character has the bytes that it stands for.
struct TokenPlace {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const TokenPlace&) const = default;
};

// One for each token; they are in order. tokens: what the tokenizer gave for text, without tokens around it. Where the
// tokenizer changes the text (another form of Unicode, a space at the beginning, space that a special token takes
// along), tokens are aligned with the text where both agree again; where they do not within some dozens of bytes, it is
// refused.
Result<std::vector<TokenPlace>> token_places(const tokenizer::Tokenizer& tokenizer, std::string_view text,
                                             std::span<const tokenizer::TokenId> tokens);

}  // namespace muster::data
