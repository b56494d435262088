#include <algorithm>

#include "service/plan_report.hpp"

namespace muster::service {
namespace {

std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%") ==
                                          std::string::npos;
  if (plain) return word;
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

}  // namespace

std::string PlanCommandLine::with(const std::vector<plan::OptionChange>& changes) const {
  std::string line = "muster plan";
  const auto changed = [&](const std::string& option) {
    return std::ranges::any_of(changes, [&](const plan::OptionChange& change) { return change.option == option; });
  };
  for (const Given& given : given_) {
    if (!given.option.empty() && changed(given.option)) continue;
    if (!given.option.empty()) line += " " + given.option;
    for (const std::string& value : given.values) line += " " + quoted(value);
  }
  for (const plan::OptionChange& change : changes) {
    line += " " + change.option;
    if (!change.value.empty()) line += " " + quoted(change.value);
  }
  return line;
}

}  // namespace muster::service
