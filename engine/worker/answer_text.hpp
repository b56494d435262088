// The text of one answer as its tokens arrive, up to the first stop text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tokenizer/streaming_decoder.hpp"

namespace muster::worker {

// Finds texts in a text that comes in pieces, wherever the pieces end. Of several, the one that completes first
// counts, and among those that complete at the same place the one that began first.
class StopSearch {
 public:
  explicit StopSearch(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // What certainly belongs before any stop text. What may be the beginning of one is held back.
  std::string push(std::string_view piece);
  // What was held back and turned out not to be a stop text.
  std::string finish() { return std::exchange(held_, {}); }
  // A stop text was complete. Nothing more comes out.
  bool found() const { return found_; }

 private:
  std::size_t longest_beginning() const;

  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

// All that push() and finish() return is the answer's text.
class AnswerText {
 public:
  AnswerText(const tokenizer::Tokenizer& tokenizer, std::vector<std::string> stops)
      : decoder_(tokenizer, true), search_(std::move(stops)) {}

  std::string push(tokenizer::TokenId token) { return search_.push(decoder_.push(token)); }
  std::string finish();
  bool stopped() const { return search_.found(); }

 private:
  tokenizer::StreamingDecoder decoder_;
  StopSearch search_;
};

}  // namespace muster::worker
