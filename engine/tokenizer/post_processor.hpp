// "post_processor": the special tokens that go before and after the tokens of a text.
#pragma once

#include <vector>

#include "tokenizer/part_reader.hpp"
#include "tokenizer/token_id.hpp"

namespace muster::tokenizer {

struct PostProcessor {
  std::vector<TokenId> before, behind;

  static PostProcessor read(PartReader reader);
};

}  // namespace muster::tokenizer
