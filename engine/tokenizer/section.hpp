// A part of the text on its way to the model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace muster::tokenizer {

// head: how many bytes at the front stand for the very first character of the whole text; 0 for every section that does
// not begin with it. Metaspace puts its mark before such sections only, where it is set to "first".
struct Section {
  std::string_view text;
  std::size_t head = 0;

  Section part(std::size_t begin, std::size_t end) const {
    return {text.substr(begin, end - begin), begin < head ? std::min(head, end) - begin : 0};
  }
};

// The same where the text had to be rewritten.
struct OwnedSection {
  std::string text;
  std::size_t head = 0;

  Section view() const { return {text, head}; }
};

}  // namespace muster::tokenizer
