// The words of a template.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/value.hpp"

namespace muster::chat {

// What is wrong with a template, and in which of its lines.
struct TemplateFailure {
  int line = 1;
  std::string what;
};

struct Token {
  enum class Kind {
    data,
    variable_begin,
    variable_end,
    block_begin,
    block_end,
    name,
    text,     // a string in quotes
    integer,  // both with their value
    number,
    symbol,  // an operator or bracket
    end,
  };
  Kind kind = Kind::end;
  int line = 1;
  std::string word;  // as written; of data and text: what it stands for
  Value value;       // of numbers

  bool is(std::string_view symbol) const { return kind == Kind::symbol && word == symbol; }
  bool is_name(std::string_view name) const { return kind == Kind::name && word == name; }
};

struct Tokens {
  std::vector<Token> list;  // the last one is Kind::end
  std::optional<TemplateFailure> failure;
};

// White space is already taken away where the template or the rules of chat templates (trim_blocks, lstrip_blocks) say
// so; comments are gone, raw parts are data.
Tokens read_tokens(std::string_view source);

}  // namespace muster::chat
