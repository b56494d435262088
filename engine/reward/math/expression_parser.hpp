// Tokens to an expression.
#pragma once

#include <span>
#include <variant>

#include "reward/math/expression.hpp"
#include "reward/math/token.hpp"

namespace muster::reward::math {

// Why there is none: it is no mathematics, or some that is not understood here (integrals, cases, bases).
enum class Unreadable { malformed, unsupported };

// All of the tokens. Words at the end, as in "5 apples" and "3 \text{ cm}^2", are units and left out.
std::variant<Expression, Unreadable> parse_expression(std::span<const Token> tokens);

}  // namespace muster::reward::math
