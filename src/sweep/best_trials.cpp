#include "sweep/best_trials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/clean_text.hpp"
#include "base/text.hpp"
#include "spec/codec.hpp"

namespace muster::sweep {
namespace {

// A YAML table whose keys keep their order.
struct Branch {
  std::string key;
  const Value* value = nullptr;  // of a leaf
  std::vector<Branch> branches;
};

void place(std::vector<Branch>& branches, std::span<const std::string> keys, const Value& value) {
  auto found = std::ranges::find(branches, keys.front(), &Branch::key);
  if (found == branches.end()) found = branches.insert(branches.end(), Branch{keys.front(), nullptr, {}});
  if (keys.size() == 1)
    found->value = &value;
  else
    place(found->branches, keys.subspan(1), value);
}

void write(const std::vector<Branch>& branches, std::size_t depth, std::string& text) {
  for (const Branch& branch : branches) {
    text += std::string(2 * depth, ' ') + spec::write(branch.key) + ":";
    if (branch.value != nullptr) text += " " + to_yaml(*branch.value);
    text += '\n';
    write(branch.branches, depth + 1, text);
  }
}

// A word that the command line would read as something else is quoted, as required there: see docs/configuration.md.
std::string on_command_line(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return to_text(value);
  Node node;
  node.kind = Node::Kind::scalar;
  node.text = *text;
  const bool plain = !text->empty() && trim(*text) == *text &&
                     std::string_view("[{\"'").find(text->front()) == std::string_view::npos && !spec::is_absent(node) && printable_lines(*text) == *text;
  if (plain) return *text;
  return escaped_lines(nlohmann::json(*text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

std::vector<Observation> best_trials(std::span<const Observation> observations, Goal goal, std::size_t most) {
  std::vector<Observation> best;
  for (const Observation& observation : observations)
    if (!observation.failed()) best.push_back(observation);
  std::ranges::stable_sort(best, {}, [goal](const Observation& observation) {
    return std::tuple(-oriented(goal, *observation.score), observation.cost_seconds);
  });
  if (best.size() > most) best.resize(most);
  return best;
}

std::string yaml_patch(const Settings& settings) {
  std::vector<Branch> branches;
  for (const Setting& setting : settings) place(branches, split(setting.path, '.'), setting.value);
  std::string text;
  write(branches, 0, text);
  return text;
}

std::vector<std::string> override_list(const Settings& settings) {
  std::vector<std::string> list;
  for (const Setting& setting : settings)
    list.push_back(fmt::format("{}={}", setting.path, on_command_line(setting.value)));
  return list;
}

}  // namespace muster::sweep
