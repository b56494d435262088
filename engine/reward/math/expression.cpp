#include "reward/math/expression.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace muster::reward::math {

std::optional<std::int64_t> small_integer(const Expression& expression) {
  constexpr std::int64_t most = 1'000'000;
  std::optional<std::int64_t> value;
  std::vector<std::int64_t> operands;
  for (const Expression& operand : expression.operands) {
    const auto known = small_integer(operand);
    if (!known) return std::nullopt;
    operands.push_back(*known);
  }
  switch (expression.operation) {
    case Operation::number:
      value = parse_number<std::int64_t>(expression.text);
      break;
    case Operation::negate:
      value = -operands[0];
      break;
    case Operation::add:
      value = operands[0] + operands[1];
      break;
    case Operation::multiply:
      value = operands[0] * operands[1];
      break;
    default:
      break;
  }
  return value && *value >= -most && *value <= most ? value : std::nullopt;
}

bool has_names(const Expression& expression) {
  return expression.operation == Operation::name || expression.operation == Operation::imaginary ||
         std::ranges::any_of(expression.operands, has_names);
}

}  // namespace muster::reward::math
