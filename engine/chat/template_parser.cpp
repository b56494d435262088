#include "chat/template_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "base/text.hpp"

namespace muster::chat {
namespace {

// Tags for templates that are split over files, which a chat template, being one text, has no use for.
constexpr std::string_view refused[] = {"block", "extends", "include", "import", "from", "autoescape"};

class StatementParser {
 public:
  explicit StatementParser(Tokens tokens) : stream_(std::move(tokens)), expressions_(stream_) {}

  ParsedTemplate run() {
    ParsedTemplate parsed;
    parsed.tree.body = body({});
    parsed.failure = stream_.failure();
    return parsed;
  }

 private:
  using EndNames = std::initializer_list<std::string_view>;

  // Statements up to a tag that begins with one of these names, which is the current word then.
  Body body(EndNames ends) {
    Body statements;
    while (!stream_.failed() && stream_.current().kind != Token::Kind::end) {
      const Token token = stream_.take();
      if (token.kind == Token::Kind::data) {
        statements.push_back({token.line, Data{token.word}});
      } else if (token.kind == Token::Kind::variable_begin) {
        const int line = stream_.line();
        statements.push_back({line, Output{expressions_.tuple_or_expression()}});
        stream_.expect(Token::Kind::variable_end);
      } else {
        if (std::ranges::any_of(ends, [&](auto name) { return stream_.current().is_name(name); })) return statements;
        statement(statements);
        stream_.expect(Token::Kind::block_end);
      }
    }
    if (ends.size() > 0) stream_.fail(fmt::format("the template ends where {{% {} %}} is expected", *(ends.end() - 1)));
    return statements;
  }

  // What a tag holds: up to its end tag, which is the current word then.
  Body block(EndNames ends) {
    stream_.skip(":");
    stream_.expect(Token::Kind::block_end);
    Body statements;
    if (expressions_.enter()) statements = body(ends);
    expressions_.leave();
    return statements;
  }
  Body whole_block(std::string_view end) {
    Body statements = block({end});
    stream_.take();
    return statements;
  }

  void statement(Body& statements) {
    const Token token = stream_.current();
    const std::string name = stream_.expect_name();
    const auto put = [&](Statement::Node node) { statements.push_back({token.line, std::move(node)}); };
    if (name == "if") return put(condition());
    if (name == "for") return put(loop());
    if (name == "set") return put(assignment());
    if (name == "macro") return put(macro());
    if (name == "call") return put(call_block());
    if (name == "filter") return put(filter_block());
    if (name == "with") return put(with());
    if (name == "print") return print(token.line, statements);
    if (name == "generation") return put(generation());
    if (name == "break" || name == "continue") return put(loop_control(name));
    if (!stream_.failed()) stream_.fail(token.line, unknown_tag(name));
  }

  static std::string unknown_tag(const std::string& name) {
    const std::vector<std::string> known{"if",   "for",   "set",        "macro", "call",     "filter",
                                         "with", "print", "generation", "break", "continue", "raw"};
    if (std::ranges::find(refused, name) != std::end(refused))
      return fmt::format("{{% {} %}} is not known: a chat template is one text", name);
    if (name.starts_with("end") || name == "else" || name == "elif")
      return fmt::format("{{% {} %}} stands where nothing is open for it", name);
    const auto near = nearest(name, known);
    return fmt::format("there is no tag '{}'{}", name, near ? fmt::format("; did you mean '{}'?", *near) : "");
  }

  If condition() {
    If result;
    while (!stream_.failed()) {
      ExpressionPointer test = expressions_.tuple_or_expression(false);
      result.branches.emplace_back(std::move(test), block({"elif", "else", "endif"}));
      const std::string end = stream_.take().word;
      if (end == "elif") continue;
      if (end == "else") result.otherwise = whole_block("endif");
      break;
    }
    return result;
  }

  For loop() {
    For result;
    result.target = expressions_.target("in", false);
    if (!stream_.skip_name("in")) stream_.fail("'in' is expected in {% for … in … %}");
    result.iterated = expressions_.tuple_or_expression(false);
    if (stream_.skip_name("if")) result.condition = expressions_.expression();
    if (stream_.current().is_name("recursive")) stream_.fail("recursive loops are not known: write a macro");
    ++loops_;
    result.body = block({"else", "endfor"});
    --loops_;
    if (stream_.take().word == "else") result.otherwise = whole_block("endfor");
    return result;
  }

  Statement::Node assignment() {
    Target target = expressions_.target("", true);
    if (stream_.skip("=")) return Set{std::move(target), expressions_.tuple_or_expression()};
    ExpressionPointer filter = expressions_.block_filter(false);
    return SetBlock{std::move(target), std::move(filter), outside_of_loops("endset")};
  }

  // A body whose text is gathered first: a loop around it cannot be left from there.
  Body outside_of_loops(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    Body statements = whole_block(end);
    loops_ = loops;
    return statements;
  }

  void signature(MacroDefinition& definition) {
    stream_.expect("(");
    while (!stream_.failed() && !stream_.current().is(")")) {
      definition.parameters.push_back(stream_.expect_name());
      if (stream_.skip("="))
        definition.defaults.push_back(expressions_.expression());
      else if (!definition.defaults.empty())
        stream_.fail("a parameter without a default after one with a default");
      if (!stream_.skip(",")) break;
    }
    stream_.expect(")");
  }

  // The body of a macro, and which names of its own it reads.
  void macro_body(MacroDefinition& definition, std::string_view end) {
    const MacroNames around = std::exchange(expressions_.names(), {});
    definition.body = outside_of_loops(end);
    MacroNames& names = expressions_.names();
    definition.uses_caller = names.caller;
    definition.uses_more_positional = names.more_positional;
    definition.uses_more_named = names.more_named;
    names.caller |= around.caller;
    names.more_positional |= around.more_positional;
    names.more_named |= around.more_named;
  }

  MacroDefinition macro() {
    MacroDefinition definition;
    definition.name = stream_.expect_name();
    signature(definition);
    macro_body(definition, "endmacro");
    return definition;
  }

  CallBlock call_block() {
    CallBlock result;
    result.caller.name = "caller";
    if (stream_.current().is("(")) signature(result.caller);
    const int line = stream_.line();
    result.call = expressions_.expression();
    if (!std::holds_alternative<Call>(result.call->node)) stream_.fail(line, "{% call %} needs the call of a macro");
    macro_body(result.caller, "endcall");
    return result;
  }

  FilterBlock filter_block() {
    ExpressionPointer filter = expressions_.block_filter(true);
    return {std::move(filter), outside_of_loops("endfilter")};
  }

  With with() {
    With result;
    while (!stream_.failed() && stream_.current().kind != Token::Kind::block_end) {
      if (!result.assignments.empty()) stream_.expect(",");
      Target target = expressions_.target("", false);
      stream_.expect("=");
      result.assignments.emplace_back(std::move(target), expressions_.expression());
    }
    result.body = whole_block("endwith");
    return result;
  }

  void print(int line, Body& statements) {
    do statements.push_back({line, Output{expressions_.expression()}});
    while (!stream_.failed() && stream_.skip(","));
  }

  Generation generation() { return {outside_of_loops("endgeneration")}; }

  Statement::Node loop_control(const std::string& name) {
    if (loops_ == 0) stream_.fail(fmt::format("{{% {} %}} outside of a loop", name));
    if (name == "break") return Break{};
    return Continue{};
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  int loops_ = 0;  // that are open here
};

}  // namespace

ParsedTemplate parse_template(std::string_view source) { return StatementParser(read_tokens(source)).run(); }

}  // namespace muster::chat
