#include "launch/keeper_mark.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/files.hpp"
#include "base/text.hpp"

namespace muster::launch {
namespace {

constexpr std::string_view start_of_entry = "MUSTER_KEEPER=";
constexpr char separator = ':';

}  // namespace

void add_mark(std::vector<std::string>& environment, const ProcessIdentity& keeper) {
  const auto entry =
      std::ranges::find_if(environment, [](const std::string& text) { return text.starts_with(start_of_entry); });
  if (entry == environment.end())
    environment.push_back(fmt::format("{}{}", start_of_entry, to_string(keeper)));
  else
    *entry += separator + to_string(keeper);
}

bool carries_mark(pid_t pid, const ProcessIdentity& keeper) {
  const auto environment = read_file(fmt::format("/proc/{}/environ", pid));
  if (!environment) return false;
  for (const std::string& entry : split(*environment, '\0')) {
    if (!entry.starts_with(start_of_entry)) continue;
    const std::vector<std::string> keepers = split(entry.substr(start_of_entry.size()), separator);
    return std::ranges::find(keepers, to_string(keeper)) != keepers.end();
  }
  return false;
}

}  // namespace muster::launch
