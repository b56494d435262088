#include "chat/renderer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "chat/attributes.hpp"
#include "chat/loop_object.hpp"

namespace muster::chat {
namespace {

// A macro with the scope it was defined in.
class Macro : public Object {
 public:
  Macro(Renderer& renderer, const MacroDefinition& definition, std::shared_ptr<Scope> around)
      : renderer_(renderer), definition_(definition), around_(std::move(around)) {}
  std::string shown() const override { return fmt::format("<Macro '{}'>", definition_.name); }
  std::string_view type() const override { return "Macro"; }
  bool is_callable() const override { return true; }
  Value attribute(Evaluation& evaluation, std::string_view name) const override {
    return name == "name" ? Value(definition_.name) : Object::attribute(evaluation, name);
  }
  Value call(Evaluation&, const Arguments& arguments) override {
    return renderer_.run_macro(definition_, around_, arguments);
  }

 private:
  Renderer& renderer_;
  const MacroDefinition& definition_;
  std::shared_ptr<Scope> around_;
};

}  // namespace

// What each kind of statement does.
struct Renderer::Visitor {
  Renderer& self;

  Flow operator()(const Data& node) const {
    self.write(node.text);
    return Flow::onward;
  }
  Flow operator()(const Output& node) const {
    self.write(self.evaluation_.to_text(self.evaluation_.evaluate(*node.expression)));
    return Flow::onward;
  }
  Flow operator()(const If& node) const {
    for (const auto& [condition, body] : node.branches)
      if (is_true(self.evaluation_.evaluate(*condition))) return self.run(body);
    return self.evaluation_.failed() ? Flow::onward : self.run(node.otherwise);
  }
  Flow operator()(const For& node) const {
    auto elements = self.elements_of(node);
    if (self.evaluation_.failed()) return Flow::onward;
    if (elements.empty())
      self.run_inside(node.otherwise, self.inner_scope());
    else
      self.run_loop(node, std::move(elements));
    return Flow::onward;
  }
  Flow operator()(const Set& node) const {
    self.assign(node.target, self.evaluation_.evaluate(*node.value), *self.evaluation_.scope());
    return Flow::onward;
  }
  Flow operator()(const SetBlock& node) const {
    Value text = self.evaluation_.text(self.captured(node.body, self.inner_scope()));
    if (node.filter) text = self.evaluation_.apply_block_filter(*node.filter, std::move(text));
    self.assign(node.target, text, *self.evaluation_.scope());
    return Flow::onward;
  }
  Flow operator()(const FilterBlock& node) const {
    Value text = self.evaluation_.text(self.captured(node.body, self.inner_scope()));
    self.write(self.evaluation_.to_text(self.evaluation_.apply_block_filter(*node.filter, std::move(text))));
    return Flow::onward;
  }
  Flow operator()(const With& node) const {
    const auto scope = self.inner_scope();
    for (const auto& [target, expression] : node.assignments)  // none of them sees the others
      self.assign(target, self.evaluation_.evaluate(*expression), *scope);
    return self.run_inside(node.body, scope);
  }
  Flow operator()(const MacroDefinition& node) const {
    self.evaluation_.scope()->set(node.name, self.macro_value(node));
    return Flow::onward;
  }
  Flow operator()(const CallBlock& node) const {
    const Call& call = std::get<Call>(node.call->node);
    const Value callee = self.evaluation_.evaluate(*call.callee);
    Arguments arguments = self.evaluation_.evaluate_arguments(call.arguments);
    arguments.named.emplace_back("caller", self.macro_value(node.caller));
    self.write(self.evaluation_.to_text(self.evaluation_.call(callee, arguments)));
    return Flow::onward;
  }
  // Note [Generated spans] A span is counted from what the template has put out so far, as apply_chat_template's masks
  // are; inside of a macro that is where the macro's text will begin.
  Flow operator()(const Generation& node) const {
    const std::string text = self.captured(node.body, self.inner_scope());
    self.generated_.push_back({self.text_.size(), self.text_.size() + text.size()});
    self.write(text);
    return Flow::onward;
  }
  Flow operator()(const Break&) const { return Flow::leave_loop; }
  Flow operator()(const Continue&) const { return Flow::next_round; }
};

std::string Renderer::render(const TemplateTree& tree) {
  evaluation_.remember(evaluation_.scope());
  run(tree.body);
  for (Span& span : generated_) span = {std::min(span.begin, text_.size()), std::min(span.end, text_.size())};
  return std::move(text_);
}

void Renderer::write(const std::string& text) {
  if (evaluation_.charge_bytes(text.size())) *out_ += text;
}

Renderer::Flow Renderer::run(const Body& body) {
  Flow flow = Flow::onward;
  if (!evaluation_.descend()) return flow;
  for (const Statement& statement : body) {
    evaluation_.at_line(statement.line);
    if (!evaluation_.charge(1)) break;
    flow = std::visit(Visitor{*this}, statement.node);
    if (flow != Flow::onward || evaluation_.failed()) break;
  }
  evaluation_.ascend();
  return flow;
}

Renderer::Flow Renderer::run_inside(const Body& body, const std::shared_ptr<Scope>& scope) {
  const auto around = evaluation_.scope();
  evaluation_.enter_scope(scope);
  const Flow flow = run(body);
  evaluation_.enter_scope(around);
  return flow;
}

std::string Renderer::captured(const Body& body, const std::shared_ptr<Scope>& scope) {
  std::string text;
  std::string* around = std::exchange(out_, &text);
  run_inside(body, scope);
  out_ = around;
  return text;
}

void Renderer::assign(const Target& target, const Value& value, Scope& scope) {
  if (evaluation_.failed()) return;
  if (target.is_tuple) {
    const auto parts = evaluation_.iterate(value);
    if (evaluation_.failed()) return;
    if (parts.size() != target.parts.size()) {
      evaluation_.fail(fmt::format("{} values for {} names", parts.size(), target.parts.size()));
      return;
    }
    for (std::size_t i = 0; i < parts.size(); ++i) assign(target.parts[i], parts[i], scope);
    return;
  }
  if (target.attribute.empty()) return scope.set(target.name, value);
  const Value* held = scope.find(target.name);
  auto* space = held == nullptr ? nullptr : dynamic_cast<Namespace*>(held->object());
  if (space == nullptr)
    evaluation_.fail(fmt::format("'{}' is not a namespace: its attributes cannot be set", target.name));
  else if (target.attribute.starts_with('_'))
    evaluation_.fail(fmt::format("a namespace takes no attribute that begins with '_': '{}'", target.attribute));
  else
    space->set(target.attribute, value);
}

std::vector<Value> Renderer::elements_of(const For& loop) {
  std::vector<Value> elements = evaluation_.iterate(evaluation_.evaluate(*loop.iterated));
  if (!loop.condition) return elements;
  std::vector<Value> kept;
  const auto around = evaluation_.scope();
  for (const Value& element : elements) {
    evaluation_.enter_scope(std::make_shared<Scope>(around));
    assign(loop.target, element, *evaluation_.scope());
    if (is_true(evaluation_.evaluate(*loop.condition))) kept.push_back(element);
    if (evaluation_.failed()) break;
  }
  evaluation_.enter_scope(around);
  return kept;
}

void Renderer::run_loop(const For& loop, std::vector<Value> elements) {
  const auto state = std::make_shared<LoopObject>(elements);
  for (std::size_t i = 0; i < elements.size() && evaluation_.charge(1); ++i) {
    state->go_to(i);
    const auto scope = inner_scope();
    scope->set("loop", std::shared_ptr<Object>(state));
    assign(loop.target, elements[i], *scope);
    if (evaluation_.failed() || run_inside(loop.body, scope) == Flow::leave_loop) return;
  }
}

Value Renderer::macro_value(const MacroDefinition& definition) {
  evaluation_.remember(evaluation_.scope());
  return std::shared_ptr<Object>(std::make_shared<Macro>(*this, definition, evaluation_.scope()));
}

// What a call of a macro was given, sorted by where it goes.
struct Renderer::MacroArguments {
  std::vector<std::optional<Value>> places;  // one for each parameter
  std::vector<Value> more;
  Dictionary more_named;
  Value caller = undefined("no caller is defined");
};

bool Renderer::sort_arguments(const MacroDefinition& definition, const Arguments& given, MacroArguments& sorted) {
  const std::size_t count = definition.parameters.size();
  sorted.places.resize(count);
  for (std::size_t i = 0; i < given.positional.size(); ++i) {
    if (i < count)
      sorted.places[i] = given.positional[i];
    else
      sorted.more.push_back(given.positional[i]);
  }
  if (!sorted.more.empty() && !definition.uses_more_positional)
    evaluation_.fail(fmt::format("the macro '{}' takes at most {} arguments", definition.name, count));
  for (const auto& [name, value] : given.named) {
    const auto place =
        static_cast<std::size_t>(std::ranges::find(definition.parameters, name) - definition.parameters.begin());
    if (place < count && !sorted.places[place])
      sorted.places[place] = value;
    else if (name == "caller" && definition.uses_caller)
      sorted.caller = value;
    else if (place == count && definition.uses_more_named)
      sorted.more_named.assign(Value(name), value);
    else
      evaluation_.fail(fmt::format("the macro '{}' {} the argument '{}'", definition.name,
                                   place < count ? "is given twice" : "has no use for", name));
  }
  return !evaluation_.failed();
}

bool Renderer::bind_parameters(const MacroDefinition& definition, const Arguments& given, Scope& scope) {
  MacroArguments sorted;
  if (!sort_arguments(definition, given, sorted)) return false;
  const std::size_t count = definition.parameters.size(), first_default = count - definition.defaults.size();
  for (std::size_t i = 0; i < count; ++i)
    if (sorted.places[i]) scope.set(definition.parameters[i], *sorted.places[i]);
  const bool has_parameter = std::ranges::find(definition.parameters, "caller") != definition.parameters.end();
  if (definition.uses_caller && !has_parameter) scope.set("caller", sorted.caller);
  if (definition.uses_more_positional)
    scope.set("varargs", evaluation_.list(std::move(sorted.more), Sequence::Kind::tuple));
  if (definition.uses_more_named) scope.set("kwargs", evaluation_.dictionary(std::move(sorted.more_named)));
  for (std::size_t i = 0; i < count; ++i) {  // a default may use what stands before it
    if (sorted.places[i]) continue;
    const std::string& name = definition.parameters[i];
    scope.set(name, i >= first_default ? evaluation_.evaluate(*definition.defaults[i - first_default])
                                       : undefined(fmt::format("parameter '{}' was not provided", name)));
  }
  return !evaluation_.failed();
}

Value Renderer::run_macro(const MacroDefinition& definition, const std::shared_ptr<Scope>& around,
                          const Arguments& arguments) {
  if (!evaluation_.descend()) {
    evaluation_.ascend();
    return {};
  }
  const auto before = evaluation_.scope();
  const auto scope = std::make_shared<Scope>(around);
  evaluation_.enter_scope(scope);
  std::string text;
  if (bind_parameters(definition, arguments, *scope)) text = captured(definition.body, scope);
  evaluation_.enter_scope(before);
  evaluation_.ascend();
  return evaluation_.text(std::move(text));
}

}  // namespace muster::chat
