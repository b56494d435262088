// An expression as a tree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster::reward::math {

enum class Operation {
  number,     // text: digits, with a point or an exponent
  name,       // text: a variable; infinity is one
  pi,
  euler,
  imaginary,
  negate,
  add,
  multiply,
  divide,
  power,
  root,       // of the first, the second one: 2 for a square root
  absolute,
  factorial,
  binomial,
  function,   // text: sin, ln, …
};

struct Expression {
  Operation operation = Operation::number;
  std::string text = {};
  std::vector<Expression> operands = {};
};

inline Expression number(std::string text) { return {Operation::number, std::move(text), {}}; }

template <class... Operands>
Expression make(Operation operation, Operands... operands) {
  Expression made{operation, {}, {}};
  (made.operands.push_back(std::move(operands)), ...);
  return made;
}

// For one without variables that is a whole number below a million, written with + - · alone.
std::optional<std::int64_t> small_integer(const Expression& expression);

// Whether it has a name, or the imaginary unit.
bool has_names(const Expression& expression);

}  // namespace muster::reward::math
