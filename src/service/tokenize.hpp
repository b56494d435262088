// muster tokenize: what a model sees of prompts, and text from token ids.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/byte_count.hpp"
#include "base/result.hpp"
#include "spec/model/model_search.hpp"

namespace muster::service {

struct TokenizeRequest {
  std::string model;  // a folder, a tokenizer.json, a GGUF file, a name in the store or in the hub cache
  std::string prompts;
  bool decode = false;
  bool skip_special_tokens = false;    // when decoding
  bool add_generation_prompt = false;  // for messages whose row does not say
  int threads = 1;
  std::function<Result<void>(std::string_view lines)> write;
  std::function<void(ByteCount done, ByteCount total)> progress;  // may be empty
};

struct TokenizeSummary {
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
};

// Writes one JSON object per row, in order:
//   {"index", "id", "text" (rendered, for messages), "tokens", "pieces", "token_count"}, or
//   {"index", "id", "text", "token_count"} when decoding.
// Wrong rows are all named at once; in that case nothing that was written counts.
Result<TokenizeSummary> tokenize(const TokenizeRequest& request, const spec::ModelSearch& search);

}  // namespace muster::service
