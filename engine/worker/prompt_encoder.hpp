// From a request's row to tokens: the chat template, the tokenizer, and the room a sequence has.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "chat/model_text.hpp"
#include "wire/order.hpp"

namespace muster::worker {

struct SequenceRoom {
  std::int64_t longest = 0;          // prompt and answer together
  std::int64_t most_new_tokens = 0;  // where a row does not say
  std::int64_t vocabulary = 0;       // tokens that the model knows
};

struct EncodedPrompt {
  std::vector<std::int32_t> tokens;  // at least one
  std::int64_t most_new_tokens = 0;
  std::int64_t dropped = 0;  // tokens of the beginning that did not fit
  std::int64_t adapter = 0;  // its number; -1: none
};

struct EncodedPair {
  std::vector<std::int32_t> tokens;  // prompt and completion
  std::int64_t context = 0;          // tokens of the prompt
  std::int64_t dropped = 0;
  std::int64_t adapter = 0;
};

class PromptEncoder {
 public:
  // text must outlive this.
  PromptEncoder(const chat::ModelText& text, SequenceRoom room) : text_(text), room_(room) {}

  Result<EncodedPrompt> encode(const wire::Request& request) const;
  // Prompt and completion are tokenised separately; the completion gets no special tokens.
  Result<EncodedPair> encode_pair(const wire::Request& request) const;

 private:
  const chat::ModelText& text_;
  SequenceRoom room_;
};

}  // namespace muster::worker
