// Values with behaviour of their own: functions, methods, macros, namespaces, the variable "loop".
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/value.hpp"

namespace muster::chat {

class Evaluation;

// What a call was given.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Object {
 public:
  virtual ~Object() = default;
  // What Python's repr() shows.
  virtual std::string shown() const = 0;
  // The attribute of this name, undefined when there is none.
  virtual Value attribute(Evaluation& evaluation, std::string_view name) const;
  virtual bool is_callable() const { return false; }
  virtual Value call(Evaluation& evaluation, const Arguments& arguments);
  virtual std::string_view type() const { return "function"; }
};

}  // namespace muster::chat
