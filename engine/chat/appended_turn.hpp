// A conversation that goes on by tokens: what was read and written stays as it was, and only what is new is rendered. A template
// that writes earlier turns differently once others follow never sees them again.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "chat/model_text.hpp"

namespace muster::chat {

struct Opening {
  std::string prompt;
  bool rendered = false;  // by a template, to which the tokenizer adds nothing
};

// Up to where the first answer begins. A model without a chat template gets the messages' contents, a line each.
Result<Opening> open_conversation(const ModelText& text, const nlohmann::ordered_json& messages);

// What follows an answer: the end of the assistant's message, these messages, and where the next answer begins. last: the
// answer's last token, which is not repeated where the template writes it there. Without a template the contents, between line
// ends. Refused: a template that does not take such messages.
Result<std::vector<tokenizer::TokenId>> tokens_after_answer(const ModelText& text, const nlohmann::ordered_json& messages,
                                                            tokenizer::TokenId last);

// At most so many tokens: of a longer content, the beginning and the end.
std::string cut_in_the_middle(const ModelText& text, const std::string& content, std::int64_t most_tokens);

}  // namespace muster::chat
