// Evaluates a template's expressions: names, operators, calls. One per rendering.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/object.hpp"
#include "chat/render_options.hpp"
#include "chat/template_token.hpp"
#include "chat/template_tree.hpp"
#include "chat/value.hpp"

namespace muster::chat {

// Names and their values, inside of other names.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> around) : around_(std::move(around)) {}
  void set(const std::string& name, Value value);
  const Value* find(std::string_view name) const;
  void clear() { names_.clear(); }

 private:
  std::shared_ptr<Scope> around_;
  std::vector<std::pair<std::string, Value>> names_;
};

// The object that namespace(…) gives: the only one whose attributes a template can set.
class Namespace : public Object {
 public:
  std::string shown() const override;
  std::string_view type() const override { return "Namespace"; }
  Value attribute(Evaluation& evaluation, std::string_view name) const override;
  void set(const std::string& name, Value value);
  void clear() { attributes_.clear(); }

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
};

// Note [Failures] The first failure is kept; from then on every operation gives undefined at once, so that the
// evaluation runs out by itself. Loops must check failed().
class Evaluation {
 public:
  Evaluation(const RenderOptions& options, Dictionary variables);
  ~Evaluation();
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  Value evaluate(const Expression& expression);
  // The filter of a block, applied to what the block gave.
  Value apply_block_filter(const Expression& filter, Value text);
  Arguments evaluate_arguments(const CallArguments& given);

  // Failures and costs. All give undefined or false once there is a failure.
  Value fail(std::string what);
  bool failed() const { return failure_.has_value(); }
  const std::optional<TemplateFailure>& failure() const { return failure_; }
  void at_line(int line) { line_ = line; }
  bool charge(std::size_t work);         // steps of computing
  bool charge_bytes(std::size_t bytes);  // memory that is taken

  // New values, paid for.
  Value text(std::string bytes, bool markup = false);
  Value list(std::vector<Value> elements, Sequence::Kind kind = Sequence::Kind::list);
  Value dictionary(Dictionary made);
  Value make_namespace(std::shared_ptr<Namespace> made);

  // Operations that templates have no other name for.
  Value attribute(const Value& subject, std::string_view name);  // subject.name
  Value item(const Value& subject, const Value& key);            // subject[key]
  Value call(const Value& callee, const Arguments& arguments);
  std::vector<Value> iterate(const Value& iterated);  // a failure where it cannot be
  std::string to_text(const Value& value);            // str(value)
  std::optional<std::size_t> length(const Value& value);
  bool contains(const Value& container, const Value& element);
  bool equal(const Value& left, const Value& right);
  bool less(const Value& left, const Value& right);
  Value add(const Value& left, const Value& right);
  Value binary(BinaryOperator operation, const Value& left, const Value& right);

  std::shared_ptr<Scope> scope() const { return scope_; }
  void enter_scope(std::shared_ptr<Scope> scope) { scope_ = std::move(scope); }
  // Whatever can hold itself through this scope is released at the end.
  void remember(const std::shared_ptr<Scope>& scope) { scopes_.push_back(scope); }
  const RenderOptions& options() const { return options_; }

  // One more level of anything that calls itself; false (and failed) when it is too deep.
  bool descend();
  void ascend() { --depth_; }

 private:
  struct Visitor;
  Value compute(const Expression& expression);
  Value look_up(const std::string& name);
  Value slice(const SliceAccess& access);
  Value compare(const Comparison& comparison);
  bool holds(Comparator comparator, const Value& left, const Value& right);
  Value apply(const Application& application, const Value& subject);
  Value multiply(const Value& left, const Value& right);
  Value repeat(const Value& repeated, Integer times);
  Value arithmetic(BinaryOperator operation, const Value& left, const Value& right);
  Value refuse_operation(std::string_view symbol, const Value& left, const Value& right);

  const RenderOptions& options_;
  Dictionary variables_;
  std::shared_ptr<Scope> scope_;
  std::optional<TemplateFailure> failure_;
  int line_ = 1;
  int depth_ = 0;
  std::size_t work_ = 0, bytes_ = 0;
  std::vector<std::weak_ptr<Scope>> scopes_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  const Value* block_text_ = nullptr;  // what a block gave to its filter
};

}  // namespace muster::chat
