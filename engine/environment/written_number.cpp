#include "environment/written_number.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/text.hpp"

namespace muster::environment {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

struct Found {
  double value = 0;
  std::size_t end = 0;
};

// A comma belongs to a number where three digits follow it.
bool separates(std::string_view text, std::size_t at) {
  if (text[at] != ',' || at + 3 >= text.size()) return false;
  return is_digit(text[at + 1]) && is_digit(text[at + 2]) && is_digit(text[at + 3]) &&
         (at + 4 >= text.size() || !is_digit(text[at + 4]));
}

// Digits, a fraction, an exponent, without a sign.
std::optional<Found> unsigned_number(std::string_view text, std::size_t at) {
  std::string digits;
  const std::size_t begin = at;
  while (at < text.size() && (is_digit(text[at]) || (at > begin && separates(text, at)))) {
    if (text[at] != ',') digits += text[at];
    ++at;
  }
  if (at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1])) {
    digits += '.';
    for (++at; at < text.size() && is_digit(text[at]); ++at) digits += text[at];
  }
  if (digits.empty()) return std::nullopt;
  if (digits.front() == '.') digits.insert(0, 1, '0');
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    std::size_t power = at + 1;
    if (power < text.size() && (text[power] == '+' || text[power] == '-')) ++power;
    if (power < text.size() && is_digit(text[power])) {
      const std::size_t first = at;
      for (at = power; at < text.size() && is_digit(text[at]); ++at) continue;
      digits += text.substr(first, at - first);
    }
  }
  const auto value = parse_number<double>(digits);
  if (!value) return std::nullopt;
  return Found{*value, at};
}

// The first number from here on.
std::optional<Found> next_number(std::string_view text, std::size_t from) {
  for (std::size_t at = from; at < text.size(); ++at) {
    const bool begins = is_digit(text[at]) || (text[at] == '.' && at + 1 < text.size() && is_digit(text[at + 1]));
    if (!begins) continue;
    if (at > 0 && is_letter(text[at - 1])) {  // x1 is a name
      while (at < text.size() && (is_digit(text[at]) || is_letter(text[at]))) ++at;
      continue;
    }
    auto found = unsigned_number(text, at);
    if (!found) continue;
    if (found->end + 1 < text.size() && text[found->end] == '/' && is_digit(text[found->end + 1]))
      if (const auto below = unsigned_number(text, found->end + 1); below && below->value != 0)
        found = Found{found->value / below->value, below->end};
    std::size_t before = at;
    while (before > from && (text[before - 1] == '$' || text[before - 1] == ' ') && at - before < 2) --before;
    const bool is_negative = before > from && text[before - 1] == '-' &&
                             (before < 2 || !(is_digit(text[before - 2]) || is_letter(text[before - 2]) || text[before - 2] == ')'));
    if (is_negative && (text[before] != ' ')) found->value = -found->value;
    return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> last_written_number(std::string_view text) {
  std::optional<double> last;
  for (std::size_t at = 0;;) {
    const auto found = next_number(text, at);
    if (!found) return last;
    last = found->value;
    at = found->end;
  }
}

std::optional<double> answered_number(std::string_view text) {
  if (const auto thought = text.rfind("</think>"); thought != std::string_view::npos) text.remove_prefix(thought + 8);
  const std::string lower = to_lower(text);
  constexpr std::array<std::string_view, 4> marks{"answer is", "answer:", "####", "\\boxed{"};
  std::size_t behind = 0;
  for (const std::string_view mark : marks)
    if (const auto at = lower.rfind(mark); at != std::string::npos) behind = std::max(behind, at + mark.size());
  if (behind > 0) {
    const std::string_view rest = text.substr(behind);
    const std::string_view line = rest.substr(0, rest.find('\n'));
    if (const auto found = next_number(line, 0)) return found->value;
  }
  const std::string_view whole = trim(text);
  const auto line = whole.rfind('\n');
  return last_written_number(line == std::string_view::npos ? whole : whole.substr(line + 1));
}

}  // namespace muster::environment
