// What an answer is as a whole: a number or expression, a tuple, a set, an interval, a relation, a matrix, or words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "reward/math/expression_parser.hpp"

namespace muster::reward::math {

struct Form {
  enum class Kind {
    value,
    words,     // text
    group,     // items, in brackets or bare
    several,   // items joined by \cup
    relation,  // items with signs between them
    matrix,    // items are rows, which are groups
  };
  Kind kind = Kind::value;
  Expression value = {};
  bool percent = false;
  std::optional<std::size_t> decimals = {};  // written behind the point, of a value that is one number
  std::string text = {};
  std::string open = {}, close = {};  // "(", "[", "\{", or nothing
  std::vector<Form> items = {};
  std::vector<std::string> signs = {};  // = < > \le \ge \ne
  bool assigns = false;                 // the first item of a relation only names what follows: x = …, f(x) = …

  bool is_set() const { return kind == Kind::group && open == "\\{"; }
  bool is_bare() const { return kind == Kind::group && open.empty(); }
};

// cleaned: of clean_text.hpp.
std::variant<Form, Unreadable> parse_form(std::string_view cleaned);

}  // namespace muster::reward::math
