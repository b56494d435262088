// Carries out a template's statements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chat/evaluation.hpp"
#include "chat/template_tree.hpp"

namespace muster::chat {

class Renderer {
 public:
  struct Span {
    std::size_t begin, end;
  };

  Renderer(const RenderOptions& options, Dictionary variables) : evaluation_(options, std::move(variables)) {}

  // The text of the whole template; evaluation().failure() says what went wrong.
  std::string render(const TemplateTree& tree);
  const Evaluation& evaluation() const { return evaluation_; }
  const std::vector<Span>& generated() const { return generated_; }

  // The text of a macro's body, inside of the scope it was defined in.
  Value run_macro(const MacroDefinition& definition, const std::shared_ptr<Scope>& around, const Arguments& arguments);

 private:
  enum class Flow { onward, next_round, leave_loop };
  struct Visitor;

  Flow run(const Body& body);
  Flow run_inside(const Body& body, const std::shared_ptr<Scope>& scope);
  std::string captured(const Body& body, const std::shared_ptr<Scope>& scope);
  std::shared_ptr<Scope> inner_scope() const { return std::make_shared<Scope>(evaluation_.scope()); }
  void write(const std::string& text);
  void assign(const Target& target, const Value& value, Scope& scope);
  std::vector<Value> elements_of(const For& loop);
  void run_loop(const For& loop, std::vector<Value> elements);
  struct MacroArguments;
  bool sort_arguments(const MacroDefinition& definition, const Arguments& given, MacroArguments& sorted);
  bool bind_parameters(const MacroDefinition& definition, const Arguments& given, Scope& scope);
  Value macro_value(const MacroDefinition& definition);

  Evaluation evaluation_;
  std::string text_;
  std::string* out_ = &text_;  // what statements write to: the text itself, or what a block gathers
  std::vector<Span> generated_;
};

}  // namespace muster::chat
