#include "queue/grid.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

#include "base/text.hpp"

namespace muster::queue {
namespace {

struct Brace {
  std::size_t begin = 0, end = 0;  // of "{…}" in the text
  std::vector<std::string> choices;
};

// From "{" on: the parts at its own level, or nothing if it is not a grid.
std::optional<Brace> read_brace(std::string_view text, std::size_t begin) {
  Brace brace{begin, begin, {}};
  std::size_t part = begin + 1;
  int depth = 0;
  for (std::size_t at = begin; at < text.size(); ++at) {
    const char sign = text[at];
    if (std::string_view(" \t'\"`\\$;&|<>()").find(sign) != std::string_view::npos) return std::nullopt;
    if (sign == '{') ++depth;
    const bool closes = sign == '}' && --depth == 0;
    if (closes || (sign == ',' && depth == 1)) {
      brace.choices.emplace_back(text.substr(part, at - part));
      part = at + 1;
    }
    if (!closes) continue;
    brace.end = at + 1;
    return brace;
  }
  return std::nullopt;
}

// "1..5", "5..1".
std::optional<std::vector<std::string>> read_range(std::string_view text) {
  const auto dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const auto first = parse_number<std::int32_t>(text.substr(0, dots));
  const auto last = parse_number<std::int32_t>(text.substr(dots + 2));
  if (!first || !last) return std::nullopt;
  const std::int64_t step = *first <= *last ? 1 : -1;
  std::vector<std::string> numbers;
  for (std::int64_t number = *first; numbers.size() <= most_of_a_grid; number += step) {
    numbers.push_back(std::to_string(number));
    if (number == *last) break;
  }
  return numbers;
}

std::optional<Brace> first_brace(std::string_view text) {
  char quote = '\0';
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char sign = text[at];
    if (sign == '\\' && quote != '\'') {
      ++at;
    } else if (quote != '\0') {
      if (sign == quote) quote = '\0';
    } else if (sign == '\'' || sign == '"') {
      quote = sign;
    } else if (sign == '$' && at + 1 < text.size() && text[at + 1] == '{') {
      ++at;
    } else if (sign == '{') {
      auto brace = read_brace(text, at);
      if (!brace) continue;
      if (brace->choices.size() > 1) return brace;
      if (auto range = read_range(brace->choices.front())) {
        brace->choices = std::move(*range);
        return brace;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<std::string>> expand_grid(std::string_view line) {
  std::vector<std::string> commands{std::string(line)};
  bool changed = true;
  while (changed) {
    changed = false;
    std::vector<std::string> next;
    for (std::string& command : commands) {
      const auto brace = first_brace(command);
      if (!brace) {
        next.push_back(std::move(command));
      } else {
        changed = true;
        for (const std::string& choice : brace->choices)
          next.push_back(command.substr(0, brace->begin) + choice + command.substr(brace->end));
      }
      if (next.size() > most_of_a_grid)
        return Error{Error::Kind::bad_input,
                     fmt::format("a grid gives more than {} commands: {}", most_of_a_grid, line),
                     "write it as several lines"};
    }
    commands = std::move(next);
  }
  return commands;
}

}  // namespace muster::queue
