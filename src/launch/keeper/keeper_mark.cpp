#include "launch/keeper/keeper_mark.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "system/files.hpp"
#include "base/text.hpp"

namespace muster::launch {
namespace {

constexpr const char* name = "MUSTER_KEEPER";
constexpr std::string_view start_of_entry = "MUSTER_KEEPER=";
constexpr char separator = ':';

}  // namespace

std::string mark_of(const ProcessIdentity& keeper) {
  const char* above = std::getenv(name);
  return above == nullptr ? fmt::format("{}{}", start_of_entry, to_string(keeper))
                          : fmt::format("{}{}{}{}", start_of_entry, above, separator, to_string(keeper));
}

void set_mark(std::vector<std::string>& environment, const std::string& mark) {
  std::erase_if(environment, [](const std::string& entry) { return entry.starts_with(start_of_entry); });
  environment.push_back(mark);
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
