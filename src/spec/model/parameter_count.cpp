#include <fmt/format.h>

#include <array>
#include <cctype>
#include <utility>

#include "spec/model/model_config.hpp"

namespace muster::spec {
namespace {

// Zeros that a letter stands for.
std::optional<int> zeros_of(char letter) {
  switch (std::tolower(static_cast<unsigned char>(letter))) {
    case 'm':
      return 6;
    case 'b':
      return 9;
    case 't':
      return 12;
    default:
      return std::nullopt;
  }
}

// Digits, with at most one point among them, times a power of ten, exactly; nothing where that is not a whole number.
std::optional<std::int64_t> scaled(std::string_view digits, int zeros) {
  std::int64_t number = 0;
  bool after_point = false, any = false;
  for (const char letter : digits) {
    if (letter == '.') {
      if (std::exchange(after_point, true) || zeros == 0) return std::nullopt;
      continue;
    }
    if (letter < '0' || letter > '9') return std::nullopt;
    any = true;
    if (after_point && zeros == 0 && letter != '0') return std::nullopt;
    if (after_point && zeros == 0) continue;
    if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, letter - '0', &number))
      return std::nullopt;
    if (after_point) --zeros;
  }
  if (!any || digits.back() == '.' || digits.front() == '.') return std::nullopt;
  for (; zeros > 0; --zeros)
    if (__builtin_mul_overflow(number, 10, &number)) return std::nullopt;
  return number;
}

}  // namespace

Result<std::int64_t> parse_parameter_count(std::string_view text) {
  const auto zeros = text.empty() ? std::nullopt : zeros_of(text.back());
  const auto count = scaled(zeros ? text.substr(0, text.size() - 1) : text, zeros.value_or(0));
  if (count && *count > 0) return *count;
  return Error{Error::Kind::bad_input, fmt::format("'{}' is not a number of parameters", text),
               "accepted: 70B, 1.5B, 135M, 1T or a plain whole number"};
}

}  // namespace muster::spec
