// Arithmetic that a model asks for.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace muster::environment {

// "2 * (3 + sqrt(16))" → "14": + - * / % ^ **, brackets, pi, e, and sqrt, abs, exp, ln, log (of 10), sin, cos, tan, floor, ceil,
// round. Refused: anything else, and results that are no number.
Result<std::string> calculate(std::string_view expression);

}  // namespace muster::environment
