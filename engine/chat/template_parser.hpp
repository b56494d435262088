// From the words of a template to its tree.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "chat/template_token.hpp"
#include "chat/template_tree.hpp"

namespace muster::chat {

// The words with a place in them. After a failure there is only the end, so that every loop over them ends.
class TokenStream {
 public:
  explicit TokenStream(Tokens tokens) : tokens_(std::move(tokens.list)), failure_(std::move(tokens.failure)) {
    if (failure_) position_ = tokens_.size() - 1;
  }

  const Token& current() const { return tokens_[position_]; }
  const Token& next() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  int line() const { return current().line; }
  Token take();
  bool skip(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect(std::string_view symbol);
  void expect(Token::Kind kind);
  std::string expect_name();

  void fail(std::string what);
  void fail(int line, std::string what);
  bool failed() const { return failure_.has_value(); }
  const std::optional<TemplateFailure>& failure() const { return failure_; }

 private:
  std::vector<Token> tokens_;
  std::size_t position_ = 0;
  std::optional<TemplateFailure> failure_;
};

// Which names of a macro's own are read in its body.
struct MacroNames {
  bool caller = false, more_positional = false, more_named = false;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  ExpressionPointer expression(bool conditional = true);
  // Expressions with commas between them make a tuple.
  ExpressionPointer tuple_or_expression(bool conditional = true, bool parenthesized = false);
  // "| a | b(c)" after what a block gave; inline_first: the first name stands without "|".
  ExpressionPointer block_filter(bool inline_first);
  Target target(std::string_view end_name, bool namespaces);

  // Names that were read since the last call.
  MacroNames& names() { return names_; }
  // Counts a nesting; false (and failed) when it is too deep.
  bool enter();
  void leave() { --depth_; }

 private:
  ExpressionPointer disjunction();
  ExpressionPointer conjunction();
  ExpressionPointer negation();
  ExpressionPointer comparison();
  ExpressionPointer sum();
  ExpressionPointer concatenation();
  ExpressionPointer product();
  ExpressionPointer power();
  ExpressionPointer unary(bool with_filter);
  ExpressionPointer primary();
  ExpressionPointer named(const Token& token);
  ExpressionPointer list();
  ExpressionPointer dictionary();
  ExpressionPointer postfix(ExpressionPointer subject);
  ExpressionPointer subscript(ExpressionPointer subject);
  ExpressionPointer bracketed(ExpressionPointer subject);
  ExpressionPointer filters_and_tests(ExpressionPointer subject);
  ExpressionPointer filter(ExpressionPointer subject);
  ExpressionPointer test(ExpressionPointer subject);
  CallArguments call_arguments();
  void call_argument(CallArguments& arguments);
  Target single_target(bool namespaces);
  bool at_tuple_end(std::string_view end_name) const;

  ExpressionPointer make(int line, Expression::Node node);

  TokenStream& stream_;
  MacroNames names_;
  int depth_ = 0;
};

struct ParsedTemplate {
  TemplateTree tree;
  std::optional<TemplateFailure> failure;
};
ParsedTemplate parse_template(std::string_view source);

}  // namespace muster::chat
