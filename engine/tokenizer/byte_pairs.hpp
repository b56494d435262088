// The model "BPE": a word becomes the tokens of its characters, and neighbours merge until no two of them can.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/merge_table.hpp"
#include "tokenizer/token_id.hpp"
#include "tokenizer/vocabulary.hpp"
#include "tokenizer/word_cache.hpp"

namespace muster::tokenizer {

// What encoding a word needs besides the model: one for each thread.
struct BytePairWorkspace {
  WordCache cache;
  std::vector<TokenId> tokens;
  std::vector<Merge> merges;  // of each token with the next
  struct Link {
    TokenId token;
    std::int32_t previous, next;  // -1: none
    bool alive;
  };
  std::vector<Link> links;
  struct Candidate {
    std::uint32_t rank;
    std::int32_t place;
    TokenId id;
  };
  std::vector<Candidate> queue;
};

struct BytePairOptions {
  std::optional<TokenId> unknown;  // for a character that is in no vocabulary
  bool fuse_unknown = false;       // several of them in a row are one
  bool byte_fallback = false;      // "<0x41>" for each of its bytes, where all of them are known
  bool ignore_merges = false;      // a word that is a token as a whole is that token
  bool words_are_bytes = false;    // PreTokenizer::gives_bytes
};

class BytePairs {
 public:
  BytePairs(std::shared_ptr<const Vocabulary> vocabulary, MergeTable merges, BytePairOptions options);

  // Appends the tokens of a word.
  void encode(std::string_view word, BytePairWorkspace& workspace, std::vector<TokenId>& ids) const;

 private:
  // What stands for one character before anything merges.
  struct Start {
    enum class Kind { token, bytes, unknown } kind = Kind::unknown;
    TokenId token = 0;
    std::vector<TokenId> bytes;
  };

  Start start_of(std::string_view character) const;
  void make_byte_vocabulary();
  void begin_word(std::string_view word, std::vector<TokenId>& tokens) const;
  template <class NextStart>
  void collect(NextStart next, std::vector<TokenId>& tokens) const;
  void make_byte_merges();
  void begin_merges(std::string_view word, BytePairWorkspace& workspace) const;
  void merge_short(std::string_view word, BytePairWorkspace& workspace) const;
  void merge_long(BytePairWorkspace& workspace) const;
  void offer(BytePairWorkspace& workspace, std::int32_t place) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  std::optional<Vocabulary> byte_vocabulary_;  // the same tokens as bytes, where words are bytes
  MergeTable merges_;
  std::vector<Merge> byte_merges_;  // of each byte with each other, where words are bytes and all are known; else empty
  BytePairOptions options_;
  std::array<Start, 256> byte_starts_;                // by byte, where words are bytes; else by ASCII character
  std::array<std::optional<TokenId>, 256> fallback_;  // "<0x..>"
};

}  // namespace muster::tokenizer
