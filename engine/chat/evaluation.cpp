#include "chat/evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "chat/attributes.hpp"
#include "chat/code_points.hpp"
#include "chat/json_value.hpp"
#include "chat/python_text.hpp"

namespace muster::chat {
namespace {

constexpr int deepest_call = 1000;           // calls within calls, as Python has it
constexpr int deepest_value = 400;           // lists within lists
constexpr std::size_t heaviest = 4'000'000;  // values in one list or mapping, with all that is inside
constexpr std::size_t bytes_per_element = 64;

}  // namespace

void Scope::set(const std::string& name, Value value) {
  for (auto& [known, held] : names_)
    if (known == name) {
      held = std::move(value);
      return;
    }
  names_.emplace_back(name, std::move(value));
}

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->around_.get())
    for (const auto& [known, held] : scope->names_)
      if (known == name) return &held;
  return nullptr;
}

std::string Namespace::shown() const {
  std::string names;
  for (const auto& [name, value] : attributes_) names += (names.empty() ? "" : ", ") + quoted(name);
  return fmt::format("<Namespace {{{}}}>", names);
}

Value Namespace::attribute(Evaluation&, std::string_view name) const {
  for (const auto& [known, value] : attributes_)
    if (known == name) return value;
  return undefined(fmt::format("the namespace has no attribute '{}'", name));
}

void Namespace::set(const std::string& name, Value value) {
  for (auto& [known, held] : attributes_)
    if (known == name) {
      held = std::move(value);
      return;
    }
  attributes_.emplace_back(name, std::move(value));
}

Evaluation::Evaluation(const RenderOptions& options, Dictionary variables)
    : options_(options), variables_(std::move(variables)), scope_(std::make_shared<Scope>(nullptr)) {}

// Macros hold the scope that holds them, and namespaces may hold themselves: each is emptied, so that all of it goes.
Evaluation::~Evaluation() {
  for (const auto& remembered : scopes_)
    if (const auto scope = remembered.lock()) scope->clear();
  for (const auto& held : namespaces_) held->clear();
}

Value Evaluation::fail(std::string what) {
  if (!failure_) failure_ = TemplateFailure{line_, std::move(what)};
  return {};
}

bool Evaluation::charge(std::size_t work) {
  work_ += work;
  if (work_ > options_.most_work) fail("the template computes for too long; its loops are refused");
  return !failed();
}

bool Evaluation::charge_bytes(std::size_t bytes) {
  bytes_ += bytes;
  if (bytes_ > options_.most_bytes) fail("the template makes too much text; it is refused");
  return charge(bytes / 64);
}

bool Evaluation::descend() {
  ++depth_;
  if (depth_ > deepest_call) fail("the template's macros call each other too deep");
  return !failed();
}

Value Evaluation::text(std::string bytes, bool markup) {
  if (!charge_bytes(bytes.size())) return {};
  return Value(std::move(bytes), markup);
}

Value Evaluation::list(std::vector<Value> elements, Sequence::Kind kind) {
  if (!charge_bytes(bytes_per_element * elements.size())) return {};
  auto made = std::make_shared<Sequence>();
  made->kind = kind;
  for (const Value& element : elements) made->extent.add(element);
  if (made->extent.depth > deepest_value || made->extent.weight > heaviest) return fail("a list that is too large");
  made->elements = std::move(elements);
  return made;
}

Value Evaluation::dictionary(Dictionary made) {
  if (!charge_bytes(2 * bytes_per_element * made.entries().size())) return {};
  if (made.extent.depth > deepest_value || made.extent.weight > heaviest) return fail("a mapping that is too large");
  return std::shared_ptr<const Dictionary>(std::make_shared<Dictionary>(std::move(made)));
}

Value Evaluation::make_namespace(std::shared_ptr<Namespace> made) {
  if (!charge_bytes(bytes_per_element)) return {};
  namespaces_.push_back(made);
  return std::shared_ptr<Object>(std::move(made));
}

std::string Evaluation::to_text(const Value& value) {
  std::string out;
  const std::size_t left = options_.most_bytes - std::min(options_.most_bytes, bytes_);
  if (!append_text(out, value, left)) fail("the template makes too much text; it is refused");
  if (value.sequence() || value.dictionary()) charge(out.size() / 16);
  return failed() ? std::string() : out;
}

Value Evaluation::look_up(const std::string& name) {
  if (const Value* held = scope_->find(name)) return *held;
  if (const Value* given = variables_.find_text(name)) return *given;
  if (const NativeFunction* function = find(global_functions(), name)) return native(*function);
  return undefined(fmt::format("'{}' is undefined", name));
}

// One expression: what each kind of node means.
struct Evaluation::Visitor {
  Evaluation& self;

  Value operator()(const Literal& node) const { return node.value; }
  Value operator()(const Name& node) const { return self.look_up(node.name); }
  Value operator()(const AttributeAccess& node) const {
    return self.attribute(self.evaluate(*node.subject), node.name);
  }
  Value operator()(const ItemAccess& node) const {
    const Value subject = self.evaluate(*node.subject);
    return self.item(subject, self.evaluate(*node.key));
  }
  Value operator()(const SliceAccess& node) const { return self.slice(node); }
  Value operator()(const Call& node) const {
    const Value callee = self.evaluate(*node.callee);
    const Arguments arguments = self.evaluate_arguments(node.arguments);
    return self.call(callee, arguments);
  }
  Value operator()(const Application& node) const {
    if (node.subject) return self.apply(node, self.evaluate(*node.subject));
    return self.apply(node, self.block_text_ ? *self.block_text_ : Value());
  }
  Value operator()(const Not& node) const { return !is_true(self.evaluate(*node.operand)); }
  Value operator()(const Sign& node) const {
    const Value operand = self.evaluate(*node.operand);
    if (operand.undefined()) return self.fail(reason_of(operand));
    Integer integer = 0;
    if (to_integer(operand, integer)) return node.negative ? -integer : integer;
    if (const double* number = operand.number()) return node.negative ? -*number : *number;
    return self.fail(fmt::format("a sign before {}", type_name(operand)));
  }
  Value operator()(const Binary& node) const {
    const Value left = self.evaluate(*node.left);
    return self.binary(node.operation, left, self.evaluate(*node.right));
  }
  Value operator()(const Logic& node) const {
    Value left = self.evaluate(*node.left);
    return is_true(left) == node.conjunction ? self.evaluate(*node.right) : left;
  }
  Value operator()(const Comparison& node) const { return self.compare(node); }
  Value operator()(const Concatenation& node) const {
    std::string joined;
    for (const auto& part : node.parts) {
      const std::string text = self.to_text(self.evaluate(*part));
      if (!self.charge_bytes(text.size())) return {};
      joined += text;
    }
    return self.text(std::move(joined));
  }
  Value operator()(const Conditional& node) const {
    if (is_true(self.evaluate(*node.condition))) return self.evaluate(*node.then);
    if (node.otherwise) return self.evaluate(*node.otherwise);
    return undefined("the condition of an inline 'if' without 'else' does not hold");
  }
  Value operator()(const ListDisplay& node) const {
    std::vector<Value> elements;
    for (const auto& element : node.elements) elements.push_back(self.evaluate(*element));
    return self.list(std::move(elements), node.tuple ? Sequence::Kind::tuple : Sequence::Kind::list);
  }
  Value operator()(const DictionaryDisplay& node) const {
    Dictionary made;
    for (const auto& [key, value] : node.entries) {
      Value key_value = self.evaluate(*key);
      if (!is_hashable(key_value)) return self.fail(fmt::format("{} as the key of a mapping", type_name(key_value)));
      made.assign(std::move(key_value), self.evaluate(*value));
    }
    return self.dictionary(std::move(made));
  }
};

Value Evaluation::evaluate(const Expression& expression) {
  if (!charge(1)) return {};
  Value value;
  line_ = expression.line;
  if (descend()) value = std::visit(Visitor{*this}, expression.node);
  ascend();
  line_ = expression.line;
  return failed() ? Value() : value;
}

Value Evaluation::apply_block_filter(const Expression& filter, Value text) {
  const Value* around = std::exchange(block_text_, &text);
  Value filtered = evaluate(filter);
  block_text_ = around;
  return filtered;
}

Value Evaluation::apply(const Application& application, const Value& subject) {
  return invoke(*this, *application.function, subject, evaluate_arguments(application.arguments));
}

Arguments Evaluation::evaluate_arguments(const CallArguments& given) {
  Arguments arguments;
  for (const auto& argument : given.positional) arguments.positional.push_back(evaluate(*argument));
  for (const auto& [name, argument] : given.named) arguments.named.emplace_back(name, evaluate(*argument));
  if (given.more_positional)
    for (Value& more : iterate(evaluate(*given.more_positional))) arguments.positional.push_back(std::move(more));
  if (!given.more_named) return arguments;
  const Value more = evaluate(*given.more_named);
  if (more.dictionary() == nullptr) {
    fail("** needs a mapping");
    return arguments;
  }
  for (const auto& [key, value] : more.dictionary()->entries()) arguments.named.emplace_back(to_text(key), value);
  return arguments;
}

Value Evaluation::call(const Value& callee, const Arguments& arguments) {
  if (failed()) return {};
  if (callee.undefined()) return fail(reason_of(callee));
  if (callee.object() == nullptr || !callee.object()->is_callable())
    return fail(fmt::format("{} cannot be called", type_name(callee)));
  return (*callee.shared_object())->call(*this, arguments);
}

std::vector<Value> Evaluation::iterate(const Value& iterated) {
  std::vector<Value> elements;
  if (Sequence* sequence = iterated.sequence()) {
    elements.assign(sequence->elements.begin() + static_cast<std::ptrdiff_t>(sequence->consumed),
                    sequence->elements.end());
    if (sequence->kind == Sequence::Kind::generator) sequence->consumed = sequence->elements.size();
  } else if (const Dictionary* dictionary = iterated.dictionary()) {
    for (const auto& entry : dictionary->entries()) elements.push_back(entry.first);
  } else if (const std::string* text = iterated.text()) {
    if (!charge_bytes(text->size() * bytes_per_element)) return {};
    for (const std::string_view character : code_points(*text)) elements.emplace_back(std::string(character));
  } else if (!iterated.is_undefined()) {
    fail(fmt::format("{} cannot be iterated over", type_name(iterated)));
  }
  charge(elements.size());
  return elements;
}

std::optional<std::size_t> Evaluation::length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (const std::string* text = value.text()) {
    charge(text->size() / 64);
    return count_code_points(*text);
  }
  if (const Sequence* sequence = value.sequence(); sequence && sequence->kind != Sequence::Kind::generator)
    return sequence->elements.size();
  if (const Dictionary* dictionary = value.dictionary()) return dictionary->entries().size();
  return std::nullopt;
}

}  // namespace muster::chat
