#include <fmt/format.h>

#include "launch/log_folder.hpp"

namespace muster::launch {
namespace {

bool begins_name(char letter) {
  return letter == '_' || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

std::string_view name_at_front(std::string_view text) {
  if (text.empty() || !begins_name(text[0])) return {};
  std::size_t size = 1;
  while (size < text.size() && (begins_name(text[size]) || (text[size] >= '0' && text[size] <= '9'))) ++size;
  return text.substr(0, size);
}

// What stands after a '$', and how many characters of the text it takes; a size of 0: nothing that is known.
struct Replacement {
  std::string text;
  std::size_t size = 0;
};

}  // namespace

std::string log_prefix(std::string_view pattern, std::string_view role, int rank, int local_rank) {
  const auto value_of = [&](std::string_view name) -> std::optional<std::string> {
    if (name == "role_name") return std::string(role);
    if (name == "rank") return fmt::format("{}", rank);
    if (name == "local_rank") return fmt::format("{}", local_rank);
    return std::nullopt;
  };
  const auto replace = [&](std::string_view after_dollar) -> Replacement {
    if (after_dollar.starts_with('$')) return {"$", 1};
    const bool braced = after_dollar.starts_with('{');
    const std::string_view name = name_at_front(after_dollar.substr(braced ? 1 : 0));
    if (braced && !after_dollar.substr(1 + name.size()).starts_with('}')) return {};
    const auto value = value_of(name);
    return value ? Replacement{*value, name.size() + (braced ? 2 : 0)} : Replacement{};
  };

  std::string prefix;
  for (std::size_t at = 0; at < pattern.size();) {
    const char letter = pattern[at++];
    const Replacement found = letter == '$' ? replace(pattern.substr(at)) : Replacement{};
    if (found.size == 0) {
      prefix += letter;
    } else {
      prefix += found.text;
      at += found.size;
    }
  }
  return prefix;
}

}  // namespace muster::launch
