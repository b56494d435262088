// What a Tokenizer is made of.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/added_tokens.hpp"
#include "tokenizer/byte_pairs.hpp"
#include "tokenizer/decoder.hpp"
#include "tokenizer/normalizer.hpp"
#include "tokenizer/pool.hpp"
#include "tokenizer/post_processor.hpp"
#include "tokenizer/pre_tokenizer.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/vocabulary.hpp"

namespace muster::tokenizer {

struct Tokenizer::State {
  std::shared_ptr<const Vocabulary> vocabulary;  // of the model
  std::unique_ptr<const BytePairs> model;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  PostProcessor post_processor;
  Decoder decoder;
  AddedTokenFinder in_text, in_normalized_text;

  struct Added {
    std::string piece;     // as it is decoded: normalised where the token is
    bool special = false;  // by its content
    bool skipped = false;  // where special tokens are left out: by what is decoded
  };
  std::unordered_map<TokenId, Added> added;
  std::unordered_map<std::string, TokenId> added_ids;  // by content
  TokenId end = 0;                                     // one more than the largest id

  mutable Pool<BytePairWorkspace> workspaces;
};

}  // namespace muster::tokenizer
