// A tokenizer that needs no download: every byte is a token.
#pragma once

#include <cstdint>

#include "chat/model_text.hpp"

namespace muster::data {

// Token i is byte i for i below 256.
struct ByteTokens {
  static constexpr std::int32_t begin = 256;  // before every text
  static constexpr std::int32_t end = 257;
  static constexpr std::int32_t padding = 258;
  static constexpr std::int64_t vocabulary = 259;
};

// tokenizer.json, tokenizer_config.json and generation_config.json, as a Hugging Face folder has them: muster and
// transformers read the same tokens from them. chat::ModelText::parse takes them.
chat::ModelTextFiles byte_tokenizer_files();

}  // namespace muster::data
