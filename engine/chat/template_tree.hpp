// A template as the parser understood it: statements that hold expressions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "chat/native_function.hpp"
#include "chat/value.hpp"

namespace muster::chat {

struct Expression;
using ExpressionPointer = std::unique_ptr<const Expression>;

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
// subject.name
struct AttributeAccess {
  ExpressionPointer subject;
  std::string name;
};
// subject[key]
struct ItemAccess {
  ExpressionPointer subject, key;
};
// subject[start:stop:step], each may be absent
struct SliceAccess {
  ExpressionPointer subject, start, stop, step;
};
struct CallArguments {
  std::vector<ExpressionPointer> positional;
  std::vector<std::pair<std::string, ExpressionPointer>> named;
  ExpressionPointer more_positional, more_named;  // *rest and **rest
};
struct Call {
  ExpressionPointer callee;
  CallArguments arguments;
};
// A filter or a test.
struct Application {
  const NativeFunction* function = nullptr;
  ExpressionPointer subject;  // absent in the filter of a block: what the block gave
  CallArguments arguments;
};
struct Not {
  ExpressionPointer operand;
};
struct Sign {
  bool negative = false;
  ExpressionPointer operand;
};
enum class BinaryOperator { add, subtract, multiply, divide, floor_divide, modulo, power };
struct Binary {
  BinaryOperator operation;
  ExpressionPointer left, right;
};
struct Logic {
  bool conjunction = false;  // and; else or
  ExpressionPointer left, right;
};
enum class Comparator { equal, unequal, less, less_or_equal, greater, greater_or_equal, in, not_in };
struct Comparison {
  ExpressionPointer first;
  std::vector<std::pair<Comparator, ExpressionPointer>> rest;
};
struct Concatenation {
  std::vector<ExpressionPointer> parts;
};
struct Conditional {
  ExpressionPointer condition, then, otherwise;  // otherwise may be absent
};
struct ListDisplay {
  std::vector<ExpressionPointer> elements;
  bool tuple = false;
};
struct DictionaryDisplay {
  std::vector<std::pair<ExpressionPointer, ExpressionPointer>> entries;
};

struct Expression {
  using Node = std::variant<Literal, Name, AttributeAccess, ItemAccess, SliceAccess, Call, Application, Not, Sign,
                            Binary, Logic, Comparison, Concatenation, Conditional, ListDisplay, DictionaryDisplay>;
  int line = 1;
  int height = 1;  // of the tree below
  Node node;
};

struct Statement;
using Body = std::vector<Statement>;

// Where a value goes: a name, an attribute of a namespace, or several of them.
struct Target {
  std::string name;
  std::string attribute;      // of the namespace called name; empty: the name itself
  std::vector<Target> parts;  // of a tuple; then the others are empty
  bool is_tuple = false;
};
struct Data {
  std::string text;
};
struct Output {
  ExpressionPointer expression;
};
struct If {
  std::vector<std::pair<ExpressionPointer, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPointer iterated, condition;  // condition may be absent
  Body body, otherwise;
};
struct Set {
  Target target;
  ExpressionPointer value;
};
struct SetBlock {
  Target target;
  ExpressionPointer filter;  // may be absent
  Body body;
};
struct FilterBlock {
  ExpressionPointer filter;
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPointer>> assignments;
  Body body;
};
// A macro, or the body that a {% call %} hands to one.
struct MacroDefinition {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPointer> defaults;                                          // of the last parameters
  bool uses_caller = false, uses_more_positional = false, uses_more_named = false;  // caller, varargs, kwargs
  Body body;
};
struct CallBlock {
  ExpressionPointer call;
  MacroDefinition caller;
};
// {% generation %}: what the model would have written.
struct Generation {
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  using Node = std::variant<Data, Output, If, For, Set, SetBlock, FilterBlock, With, MacroDefinition, CallBlock,
                            Generation, Break, Continue>;
  int line = 1;
  Node node;
};

struct TemplateTree {
  Body body;
};

}  // namespace muster::chat
