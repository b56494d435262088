// Tokens that have a name, as Hugging Face's files give them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chat/conversation.hpp"
#include "tokenizer/tokenizer.hpp"

namespace muster::chat {

// tokenizer_config.json, and special_tokens_map.json above it where the first does not describe its tokens itself; null
// where there is none. model_type: config.json's, for the tokens that a family has where no file names them.
NamedTokens read_special_tokens(const nlohmann::json& tokenizer_config, const nlohmann::json& special_tokens_map,
                                const std::string& model_type, const tokenizer::Tokenizer& tokenizer);

// "eos_token_id": a number or a list of them; anything else is left out.
std::vector<tokenizer::TokenId> read_token_ids(const nlohmann::json& config, const char* key);

}  // namespace muster::chat
