// "added_tokens": tokens that are found in the text itself, before anything is split.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/token_id.hpp"

namespace muster::tokenizer {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool single_word = false;             // only where no character of a word is next to it
  bool lstrip = false, rstrip = false;  // also takes the white space next to it
  bool normalized = false;              // looked for in the normalised text
  bool special = false;
};

// Finds tokens in a text: among those that begin first, the longest.
class AddedTokenFinder {
 public:
  // Texts are not empty, and no two are the same.
  void add(std::string_view text, AddedToken token);
  bool empty() const { return tokens_.empty(); }

  // What lies between tokens goes to section(begin, end), a token to token(id), in order.
  template <class OnSection, class OnToken>
  void split(std::string_view text, OnSection&& section, OnToken&& token) const {
    std::size_t done = 0;
    for (Found found; find(text, found);) {
      Span span{};
      if (!widened(text, found, done, span)) continue;
      if (done < span.begin) section(done, span.begin);
      token(tokens_[found.token].id);
      done = span.end;
    }
    if (done < text.size()) section(done, text.size());
  }

 private:
  struct Found {
    std::size_t begin = 0, end = 0;  // the search continues at end
    std::size_t token = 0;
  };
  struct Span {
    std::size_t begin, end;
  };
  struct Node {
    std::vector<std::pair<unsigned char, std::uint32_t>> next;
    std::int32_t token = -1;
  };

  bool find(std::string_view text, Found& found) const;
  std::size_t next_start(std::string_view text, std::size_t from) const;
  bool widened(std::string_view text, const Found& found, std::size_t done, Span& span) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{1};
  std::array<bool, 256> starts_{};
  std::string start_bytes_;
};

}  // namespace muster::tokenizer
