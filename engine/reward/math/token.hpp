// The tokens of an answer that was cleaned (clean_text.hpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::reward::math {

struct Token {
  enum class Kind {
    number,    // 12, 0.5, 1,234 without its commas, 1e5
    name,      // a variable: x, x_1, \alpha
    word,      // text: apples, \text{even}
    function,  // sin, ln, sqrt
    command,   // \frac, \pi
    sign,      // + - * / ^ ( ) [ ] { } | , ; ! % _ & = < > : ' and \{ \} \\.
  };
  Kind kind = Kind::sign;
  std::string text = {};
  bool after_blank = false;

  bool is(std::string_view sign) const { return (kind == Kind::sign || kind == Kind::command) && text == sign; }
};

// Nothing if some character has no place in mathematics.
std::optional<std::vector<Token>> tokens_of(std::string_view cleaned);

}  // namespace muster::reward::math
