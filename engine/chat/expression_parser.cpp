#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "chat/template_parser.hpp"

namespace muster::chat {
namespace {

constexpr int deepest_expression = 100;

std::string described(const Token& token) {
  switch (token.kind) {
    case Token::Kind::end:
      return "the end of the template";
    case Token::Kind::block_end:
      return "%}";
    case Token::Kind::variable_end:
      return "}}";
    case Token::Kind::data:
      return "text";
    case Token::Kind::text:
      return "a string";
    default:
      return fmt::format("'{}'", token.word);
  }
}

int height_of(const ExpressionPointer& expression) { return expression ? expression->height : 0; }

int height_of(const CallArguments& arguments) {
  int height = std::max(height_of(arguments.more_positional), height_of(arguments.more_named));
  for (const auto& argument : arguments.positional) height = std::max(height, height_of(argument));
  for (const auto& [name, argument] : arguments.named) height = std::max(height, height_of(argument));
  return height;
}

int height_of(const std::vector<ExpressionPointer>& expressions) {
  int height = 0;
  for (const auto& expression : expressions) height = std::max(height, height_of(expression));
  return height;
}

// The height of what a node holds.
struct InnerHeight {
  int operator()(const Literal&) const { return 0; }
  int operator()(const Name&) const { return 0; }
  int operator()(const AttributeAccess& node) const { return height_of(node.subject); }
  int operator()(const ItemAccess& node) const { return std::max(height_of(node.subject), height_of(node.key)); }
  int operator()(const SliceAccess& node) const {
    return std::max({height_of(node.subject), height_of(node.start), height_of(node.stop), height_of(node.step)});
  }
  int operator()(const Call& node) const { return std::max(height_of(node.callee), height_of(node.arguments)); }
  int operator()(const Application& node) const { return std::max(height_of(node.subject), height_of(node.arguments)); }
  int operator()(const Not& node) const { return height_of(node.operand); }
  int operator()(const Sign& node) const { return height_of(node.operand); }
  int operator()(const Binary& node) const { return std::max(height_of(node.left), height_of(node.right)); }
  int operator()(const Logic& node) const { return std::max(height_of(node.left), height_of(node.right)); }
  int operator()(const Comparison& node) const {
    int height = height_of(node.first);
    for (const auto& [comparator, operand] : node.rest) height = std::max(height, height_of(operand));
    return height;
  }
  int operator()(const Concatenation& node) const { return height_of(node.parts); }
  int operator()(const Conditional& node) const {
    return std::max({height_of(node.condition), height_of(node.then), height_of(node.otherwise)});
  }
  int operator()(const ListDisplay& node) const { return height_of(node.elements); }
  int operator()(const DictionaryDisplay& node) const {
    int height = 0;
    for (const auto& [key, value] : node.entries) height = std::max({height, height_of(key), height_of(value)});
    return height;
  }
};

std::string unknown(std::string_view kind, const std::string& name, const std::vector<std::string>& known) {
  const auto near = nearest(name, known);
  return fmt::format("there is no {} '{}'{}", kind, name, near ? fmt::format("; did you mean '{}'?", *near) : "");
}

std::optional<Comparator> comparator_of(const Token& token) {
  constexpr std::pair<std::string_view, Comparator> known[] = {
      {"==", Comparator::equal},         {"!=", Comparator::unequal}, {"<", Comparator::less},
      {"<=", Comparator::less_or_equal}, {">", Comparator::greater},  {">=", Comparator::greater_or_equal}};
  for (const auto& [symbol, comparator] : known)
    if (token.is(symbol)) return comparator;
  return std::nullopt;
}

}  // namespace

Token TokenStream::take() {
  Token taken = tokens_[position_];
  if (position_ + 1 < tokens_.size()) ++position_;
  return taken;
}

bool TokenStream::skip(std::string_view symbol) {
  const bool here = current().is(symbol);
  if (here) take();
  return here;
}

bool TokenStream::skip_name(std::string_view name) {
  const bool here = current().is_name(name);
  if (here) take();
  return here;
}

void TokenStream::expect(std::string_view symbol) {
  if (!skip(symbol)) fail(fmt::format("'{}' is expected, not {}", symbol, described(current())));
}

void TokenStream::expect(Token::Kind kind) {
  if (current().kind == kind)
    take();
  else
    fail(fmt::format("{} is expected, not {}", kind == Token::Kind::block_end ? "%}" : "}}", described(current())));
}

std::string TokenStream::expect_name() {
  if (current().kind == Token::Kind::name) return take().word;
  fail(fmt::format("a name is expected, not {}", described(current())));
  return "";
}

void TokenStream::fail(std::string what) { fail(line(), std::move(what)); }

void TokenStream::fail(int line, std::string what) {
  if (!failure_) failure_ = TemplateFailure{line, std::move(what)};
  position_ = tokens_.size() - 1;
}

bool ExpressionParser::enter() {
  if (++depth_ > deepest_expression) stream_.fail(fmt::format("nested deeper than {}", deepest_expression));
  return depth_ <= deepest_expression;
}

ExpressionPointer ExpressionParser::make(int line, Expression::Node node) {
  const int height = 1 + std::visit(InnerHeight{}, node);
  if (height > deepest_expression)
    stream_.fail(line, fmt::format("an expression of more than {} steps", deepest_expression));
  return std::make_unique<const Expression>(Expression{line, height, std::move(node)});
}

ExpressionPointer ExpressionParser::expression(bool conditional) {
  ExpressionPointer result = enter() ? disjunction() : make(stream_.line(), Literal{});
  while (conditional && !stream_.failed() && stream_.current().is_name("if")) {
    const int line = stream_.take().line;
    ExpressionPointer condition = disjunction();
    ExpressionPointer otherwise = stream_.skip_name("else") ? expression() : nullptr;
    result = make(line, Conditional{std::move(condition), std::move(result), std::move(otherwise)});
  }
  leave();
  return result;
}

ExpressionPointer ExpressionParser::disjunction() {
  ExpressionPointer left = conjunction();
  while (stream_.current().is_name("or")) {
    const int line = stream_.take().line;
    left = make(line, Logic{false, std::move(left), conjunction()});
  }
  return left;
}

ExpressionPointer ExpressionParser::conjunction() {
  ExpressionPointer left = negation();
  while (stream_.current().is_name("and")) {
    const int line = stream_.take().line;
    left = make(line, Logic{true, std::move(left), negation()});
  }
  return left;
}

ExpressionPointer ExpressionParser::negation() {
  if (!stream_.current().is_name("not")) return comparison();
  const int line = stream_.take().line;
  ExpressionPointer operand = enter() ? negation() : make(line, Literal{});
  leave();
  return make(line, Not{std::move(operand)});
}

ExpressionPointer ExpressionParser::comparison() {
  const int line = stream_.line();
  ExpressionPointer first = sum();
  std::vector<std::pair<Comparator, ExpressionPointer>> rest;
  while (!stream_.failed()) {
    if (const auto comparator = comparator_of(stream_.current())) {
      stream_.take();
      rest.emplace_back(*comparator, sum());
    } else if (stream_.skip_name("in")) {
      rest.emplace_back(Comparator::in, sum());
    } else if (stream_.current().is_name("not") && stream_.next().is_name("in")) {
      stream_.take();
      stream_.take();
      rest.emplace_back(Comparator::not_in, sum());
    } else {
      break;
    }
  }
  if (rest.empty()) return first;
  return make(line, Comparison{std::move(first), std::move(rest)});
}

ExpressionPointer ExpressionParser::sum() {
  ExpressionPointer left = concatenation();
  while (stream_.current().is("+") || stream_.current().is("-")) {
    const Token token = stream_.take();
    const auto operation = token.word == "+" ? BinaryOperator::add : BinaryOperator::subtract;
    left = make(token.line, Binary{operation, std::move(left), concatenation()});
  }
  return left;
}

ExpressionPointer ExpressionParser::concatenation() {
  const int line = stream_.line();
  std::vector<ExpressionPointer> parts;
  parts.push_back(product());
  while (stream_.skip("~")) parts.push_back(product());
  if (parts.size() == 1) return std::move(parts.front());
  return make(line, Concatenation{std::move(parts)});
}

ExpressionPointer ExpressionParser::product() {
  constexpr std::pair<std::string_view, BinaryOperator> operations[] = {{"*", BinaryOperator::multiply},
                                                                        {"/", BinaryOperator::divide},
                                                                        {"//", BinaryOperator::floor_divide},
                                                                        {"%", BinaryOperator::modulo}};
  ExpressionPointer left = power();
  while (true) {
    const auto operation =
        std::ranges::find_if(operations, [&](const auto& known) { return stream_.current().is(known.first); });
    if (operation == std::end(operations)) return left;
    const int line = stream_.take().line;
    left = make(line, Binary{operation->second, std::move(left), power()});
  }
}

ExpressionPointer ExpressionParser::power() {
  ExpressionPointer left = unary(true);
  while (stream_.current().is("**")) {
    const int line = stream_.take().line;
    left = make(line, Binary{BinaryOperator::power, std::move(left), unary(true)});
  }
  return left;
}

ExpressionPointer ExpressionParser::unary(bool with_filter) {
  ExpressionPointer result;
  if (stream_.current().is("-") || stream_.current().is("+")) {
    const Token token = stream_.take();
    ExpressionPointer operand = enter() ? unary(false) : make(token.line, Literal{});
    leave();
    result = make(token.line, Sign{token.word == "-", std::move(operand)});
  } else {
    result = primary();
  }
  result = postfix(std::move(result));
  return with_filter ? filters_and_tests(std::move(result)) : std::move(result);
}

ExpressionPointer ExpressionParser::primary() {
  const Token token = stream_.current();
  switch (token.kind) {
    case Token::Kind::name:
      stream_.take();
      return named(token);
    case Token::Kind::text: {
      std::string text;
      while (stream_.current().kind == Token::Kind::text) text += stream_.take().word;
      return make(token.line, Literal{Value(std::move(text))});
    }
    case Token::Kind::integer:
    case Token::Kind::number:
      stream_.take();
      return make(token.line, Literal{token.value});
    default:
      break;
  }
  if (stream_.skip("(")) {
    ExpressionPointer inner = tuple_or_expression(true, true);
    stream_.expect(")");
    return inner;
  }
  if (token.is("[")) return list();
  if (token.is("{")) return dictionary();
  stream_.fail(fmt::format("an expression is expected, not {}", described(token)));
  return make(token.line, Literal{});
}

ExpressionPointer ExpressionParser::named(const Token& token) {
  const std::string& name = token.word;
  if (name == "true" || name == "True") return make(token.line, Literal{Value(true)});
  if (name == "false" || name == "False") return make(token.line, Literal{Value(false)});
  if (name == "none" || name == "None") return make(token.line, Literal{Value(None{})});
  names_.caller |= name == "caller";
  names_.more_positional |= name == "varargs";
  names_.more_named |= name == "kwargs";
  return make(token.line, Name{name});
}

bool ExpressionParser::at_tuple_end(std::string_view end_name) const {
  const Token& token = stream_.current();
  return token.kind == Token::Kind::variable_end || token.kind == Token::Kind::block_end || token.is(")") ||
         (!end_name.empty() && token.is_name(end_name));
}

ExpressionPointer ExpressionParser::tuple_or_expression(bool conditional, bool parenthesized) {
  const int line = stream_.line();
  std::vector<ExpressionPointer> elements;
  bool tuple = false;
  while (!stream_.failed() && !at_tuple_end("")) {
    elements.push_back(expression(conditional));
    if (!stream_.skip(",")) break;
    tuple = true;
  }
  if (!tuple && !elements.empty()) return std::move(elements.front());
  if (!tuple && !parenthesized)
    stream_.fail(fmt::format("an expression is expected, not {}", described(stream_.current())));
  return make(line, ListDisplay{std::move(elements), true});
}

ExpressionPointer ExpressionParser::list() {
  const int line = stream_.take().line;
  std::vector<ExpressionPointer> elements;
  while (!stream_.failed() && !stream_.current().is("]")) {
    elements.push_back(expression());
    if (!stream_.skip(",")) break;
  }
  stream_.expect("]");
  return make(line, ListDisplay{std::move(elements), false});
}

ExpressionPointer ExpressionParser::dictionary() {
  const int line = stream_.take().line;
  std::vector<std::pair<ExpressionPointer, ExpressionPointer>> entries;
  while (!stream_.failed() && !stream_.current().is("}")) {
    ExpressionPointer key = expression();
    stream_.expect(":");
    entries.emplace_back(std::move(key), expression());
    if (!stream_.skip(",")) break;
  }
  stream_.expect("}");
  return make(line, DictionaryDisplay{std::move(entries)});
}

ExpressionPointer ExpressionParser::postfix(ExpressionPointer subject) {
  while (!stream_.failed()) {
    if (stream_.current().is(".") || stream_.current().is("[")) {
      subject = subscript(std::move(subject));
    } else if (stream_.current().is("(")) {
      const int line = stream_.line();
      subject = make(line, Call{std::move(subject), call_arguments()});
    } else {
      break;
    }
  }
  return subject;
}

ExpressionPointer ExpressionParser::subscript(ExpressionPointer subject) {
  const Token token = stream_.take();
  if (token.word == "[") return bracketed(std::move(subject));
  const Token attribute = stream_.take();
  if (attribute.kind == Token::Kind::name) return make(token.line, AttributeAccess{std::move(subject), attribute.word});
  if (attribute.kind != Token::Kind::integer)
    stream_.fail(attribute.line, fmt::format("a name or number is expected after '.', not {}", described(attribute)));
  return make(token.line, ItemAccess{std::move(subject), make(token.line, Literal{attribute.value})});
}

ExpressionPointer ExpressionParser::bracketed(ExpressionPointer subject) {
  const int line = stream_.line();
  ExpressionPointer bounds[3];
  bool slice = false;
  if (!stream_.current().is(":")) bounds[0] = expression();
  for (std::size_t i = 1; i < 3 && stream_.skip(":"); ++i) {
    slice = true;
    if (!stream_.current().is(":") && !stream_.current().is("]")) bounds[i] = expression();
  }
  if (stream_.current().is(",")) stream_.fail("several indices in one pair of brackets are not known");
  stream_.expect("]");
  if (!slice) return make(line, ItemAccess{std::move(subject), std::move(bounds[0])});
  return make(line, SliceAccess{std::move(subject), std::move(bounds[0]), std::move(bounds[1]), std::move(bounds[2])});
}

ExpressionPointer ExpressionParser::filters_and_tests(ExpressionPointer subject) {
  while (!stream_.failed()) {
    if (stream_.skip("|")) {
      subject = filter(std::move(subject));
    } else if (stream_.skip_name("is")) {
      subject = test(std::move(subject));
    } else if (stream_.current().is("(")) {
      const int line = stream_.line();
      subject = make(line, Call{std::move(subject), call_arguments()});
    } else {
      break;
    }
  }
  return subject;
}

ExpressionPointer ExpressionParser::filter(ExpressionPointer subject) {
  const int line = stream_.line();
  const std::string name = stream_.expect_name();
  const NativeFunction* function = find_filter(name);
  if (function == nullptr) stream_.fail(line, unknown("filter", name, filter_names()));
  CallArguments arguments;
  if (stream_.current().is("(")) arguments = call_arguments();
  return make(line, Application{function, std::move(subject), std::move(arguments)});
}

ExpressionPointer ExpressionParser::block_filter(bool inline_first) {
  ExpressionPointer subject;
  if (inline_first) subject = filter(nullptr);
  while (stream_.skip("|")) subject = filter(std::move(subject));
  return subject;
}

ExpressionPointer ExpressionParser::test(ExpressionPointer subject) {
  const bool negated = stream_.skip_name("not");
  const int line = stream_.line();
  const std::string name = stream_.expect_name();
  const NativeFunction* function = find_test(name);
  if (function == nullptr) stream_.fail(line, unknown("test", name, test_names()));
  CallArguments arguments;
  const Token& token = stream_.current();
  const bool value = token.kind == Token::Kind::name || token.kind == Token::Kind::text ||
                     token.kind == Token::Kind::integer || token.kind == Token::Kind::number || token.is("[") ||
                     token.is("{");
  if (token.is("("))
    arguments = call_arguments();
  else if (token.is_name("is"))
    stream_.fail("tests cannot be chained with 'is'");
  else if (value && !token.is_name("else") && !token.is_name("or") && !token.is_name("and"))
    arguments.positional.push_back(postfix(primary()));
  ExpressionPointer result = make(line, Application{function, std::move(subject), std::move(arguments)});
  return negated ? make(line, Not{std::move(result)}) : std::move(result);
}

CallArguments ExpressionParser::call_arguments() {
  CallArguments arguments;
  stream_.expect("(");
  while (!stream_.failed() && !stream_.current().is(")")) {
    call_argument(arguments);
    if (!stream_.skip(",")) break;
  }
  stream_.expect(")");
  return arguments;
}

void ExpressionParser::call_argument(CallArguments& arguments) {
  const bool more = arguments.more_positional || arguments.more_named;
  if (stream_.current().is("*") && !more) {
    stream_.take();
    arguments.more_positional = expression();
  } else if (stream_.current().is("**") && !arguments.more_named) {
    stream_.take();
    arguments.more_named = expression();
  } else if (stream_.current().kind == Token::Kind::name && stream_.next().is("=") && !arguments.more_named) {
    std::string name = stream_.take().word;
    stream_.take();
    if (std::ranges::any_of(arguments.named, [&](const auto& argument) { return argument.first == name; }))
      stream_.fail(fmt::format("the argument '{}' is given twice", name));
    arguments.named.emplace_back(std::move(name), expression());
  } else if (!more && arguments.named.empty()) {
    arguments.positional.push_back(expression());
  } else {
    stream_.fail("an argument without a name after one with a name");
  }
}

Target ExpressionParser::single_target(bool namespaces) {
  Target result;
  if (stream_.current().is("(")) {
    stream_.take();
    if (enter()) result = target("", namespaces);
    leave();
    stream_.expect(")");
    return result;
  }
  const int line = stream_.line();
  result.name = stream_.expect_name();
  constexpr std::string_view constants[] = {"true", "false", "none", "True", "False", "None"};
  if (std::ranges::find(constants, result.name) != std::end(constants))
    stream_.fail(line, fmt::format("'{}' cannot be given a value", result.name));
  if (namespaces && stream_.skip(".")) result.attribute = stream_.expect_name();
  return result;
}

Target ExpressionParser::target(std::string_view end_name, bool namespaces) {
  Target first = single_target(namespaces);
  if (!stream_.current().is(",")) return first;
  Target tuple;
  tuple.is_tuple = true;
  tuple.parts.push_back(std::move(first));
  while (stream_.skip(",")) {
    if (at_tuple_end(end_name) || stream_.current().is("=")) break;
    tuple.parts.push_back(single_target(namespaces));
  }
  return tuple;
}

}  // namespace muster::chat
