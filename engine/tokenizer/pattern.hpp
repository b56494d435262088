// What a normaliser, a pre-tokenizer or a decoder looks for: a text, or a regular expression of tokenizer.json.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace muster::tokenizer {

// A stretch of a text that matches, or that lies between matches.
struct Stretch {
  std::size_t begin = 0, end = 0;
  bool matches = false;

  bool operator==(const Stretch&) const = default;
};

// Thrown where a pattern takes more effort on a text than any pattern that is in use: it would not end.
struct PatternFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Pattern {
 public:
  static Result<Pattern> expression(std::string_view expression);
  static Pattern text(std::string text);

  // The whole text as stretches, in order; an empty match is a stretch without length. An empty text is one stretch.
  std::vector<Stretch> find_all(std::string_view text) const;

 private:
  struct Program;

  std::string text_;  // looked for where there is no program
  std::shared_ptr<const Program> program_;
};

}  // namespace muster::tokenizer
