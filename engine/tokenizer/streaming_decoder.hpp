// Text from ids that arrive one by one, as a model generates them.
#pragma once

#include <memory>
#include <string>

#include "tokenizer/tokenizer.hpp"

namespace muster::tokenizer {

class DecoderRun;

// All that push() and finish() return, put together, is what Tokenizer::decode gives for all ids. What was returned is
// final: never half a character, and never a space that a later id would take back.
class StreamingDecoder {
 public:
  StreamingDecoder(Tokenizer tokenizer, bool skip_special_tokens);
  StreamingDecoder(StreamingDecoder&&) noexcept;
  StreamingDecoder& operator=(StreamingDecoder&&) noexcept;
  ~StreamingDecoder();

  // The text that has become final; often empty.
  std::string push(TokenId id);
  // The rest, after the last id. Call it once.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  std::unique_ptr<DecoderRun> run_;
};

}  // namespace muster::tokenizer
