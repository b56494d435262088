#include "lease/public_name.hpp"

#include <algorithm>
#include <vector>

#include "base/text.hpp"

namespace muster::lease {
namespace {

// Whether a word could be the name of one of muster's commands.
bool is_command_word(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; }) &&
         word.front() != '-';
}

}  // namespace

std::string public_name(std::string_view command) {
  const std::vector<std::string> words = split(trim(command), ' ');
  if (words.empty()) return {};
  const std::string program = words.front().substr(words.front().rfind('/') + 1);
  if (program == "muster" && words.size() > 1 && is_command_word(words[1])) return program + " " + words[1];
  return program;
}

}  // namespace muster::lease
