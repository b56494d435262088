#include "sweep/sweep_document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/document.hpp"
#include "base/text.hpp"
#include "sweep/value.hpp"

namespace muster::sweep {
namespace {

constexpr std::array<std::string_view, 13> own_keys{"metric",     "goal",    "method",         "seed",     "limits",
                                                    "early_stop", "bayes",   "command",        "evaluate", "heartbeat",
                                                    "program",    "run_cap", "early_terminate"};

bool is_own_key(std::string_view key) { return std::ranges::find(own_keys, key) != own_keys.end(); }

// ---- as text ----

std::string scalar_text(const Node& node) {
  const bool plain = !node.quoted && !node.text.empty() && node.text.find('\n') == std::string::npos;
  return plain ? node.text : nlohmann::json(node.text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Non-empty tables and lists begin on a separate line.
bool is_block(const Node& node) { return !node.entries.empty() || !node.items.empty(); }

std::string write_block(const Node& node, std::size_t depth);

std::string write_inline(const Node& node) {
  if (node.kind == Node::Kind::null) return "null";
  if (node.kind == Node::Kind::table) return "{}";
  return node.kind == Node::Kind::list ? "[]" : scalar_text(node);
}

std::string write_value(const Node& node, std::size_t depth) {
  return is_block(node) ? "\n" + write_block(node, depth) : " " + write_inline(node) + "\n";
}

std::string write_block(const Node& node, std::size_t depth) {
  const std::string margin(2 * depth, ' ');
  std::string text;
  for (const Node::Entry& entry : node.entries)
    text += margin + to_yaml(Value(entry.key)) + ":" + write_value(entry.value, depth + 1);
  for (const Node& item : node.items) text += margin + "-" + write_value(item, depth + 1);
  return text;
}

// ---- changes ----

Node table_of(std::string key, Node value) {
  Node table;
  table.kind = Node::Kind::table;
  table.entries.push_back({std::move(key), {}, std::move(value)});
  return table;
}

Result<Node> read_word_value(const std::string& text, const std::string& word) {
  const bool is_list =
      text.find(',') != std::string::npos && std::string_view("[{\"'").find(text.front()) == std::string_view::npos;
  return parse_document(is_list ? "[" + text + "]" : text, word);
}

void set_key(Node& table, std::string_view path, Node value) {
  if (table.kind != Node::Kind::table) table = Node{.kind = Node::Kind::table};
  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  auto found = std::ranges::find(table.entries, key, &Node::Entry::key);
  if (found == table.entries.end()) found = table.entries.insert(table.entries.end(), {key, {}, {}});
  if (dot == std::string_view::npos)
    found->value = std::move(value);
  else
    set_key(found->value, path.substr(dot + 1), std::move(value));
}

// Wherever the path is, dotted or nested; sections that become empty are removed, too.
void remove_path(Node& table, const std::string& path) {
  std::erase_if(table.entries, [&](Node::Entry& entry) {
    if (entry.key == path) return true;
    if (!path.starts_with(entry.key + ".") || entry.value.kind != Node::Kind::table) return false;
    remove_path(entry.value, path.substr(entry.key.size() + 1));
    return entry.value.entries.empty();
  });
}

void set_parameter(Node& root, const std::string& path, Node value) {
  if (value.kind == Node::Kind::scalar) value = table_of("value", std::move(value));
  if (value.kind == Node::Kind::list) value = table_of("values", std::move(value));
  auto found = std::ranges::find(root.entries, "parameters", &Node::Entry::key);
  if (found == root.entries.end())
    found = root.entries.insert(root.entries.end(), {"parameters", {}, Node{.kind = Node::Kind::table}});
  remove_path(found->value, path);
  found->value.entries.push_back({path, {}, std::move(value)});
}

// ---- comparison ----

void flatten(const Node& node, const std::string& path, std::map<std::string, std::string>& flat) {
  for (const Node::Entry& entry : node.entries)
    flatten(entry.value, path.empty() ? entry.key : path + "." + entry.key, flat);
  if (node.kind == Node::Kind::table) return;
  std::vector<std::string> items;
  for (const Node& item : node.items)
    items.push_back(is_block(item) ? "(" + write_block(item, 0) + ")" : write_inline(item));
  flat[path] = node.kind == Node::Kind::list ? "[" + join(items, ", ") + "]" : write_inline(node);
}

Result<std::map<std::string, std::string>> flat_file(std::string_view text, std::string_view source) {
  const auto root = parse_document(text, source);
  if (!root) return root.error();
  std::map<std::string, std::string> flat;
  flatten(*root, "", flat);
  std::erase_if(flat, [](const auto& entry) { return entry.first.starts_with("limits.") || entry.first == "run_cap"; });
  return flat;
}

}  // namespace

Result<std::string> with_words(std::string_view text, std::string_view source, std::span<const std::string> words) {
  if (words.empty()) return std::string(text);
  auto root = parse_document(text, source);
  if (!root) return root.error();
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size())
      return Error{Error::Kind::bad_input, fmt::format("\"{}\" is not key=value", word),
                   "limits.trials=50 changes the sweep; training.max_steps=100 is set in every trial"};
    std::string path = word.substr(0, equals);
    auto value = read_word_value(word.substr(equals + 1), word);
    if (!value) return value.error();
    if (is_own_key(std::string_view(path).substr(0, path.find('.')))) {
      set_key(*root, path, std::move(*value));
      continue;
    }
    if (path.starts_with("parameters.")) path = path.substr(std::string_view("parameters.").size());
    set_parameter(*root, path, std::move(*value));
  }
  return write_block(*root, 0);
}

Result<std::vector<std::string>> differences(std::string_view had, std::string_view wanted) {
  const auto before = flat_file(had, "sweep.yaml");
  if (!before) return before.error();
  const auto after = flat_file(wanted, "the sweep that is asked for");
  if (!after) return after.error();
  std::vector<std::string> lines;
  for (const auto& [path, value] : *before) {
    const auto now = after->find(path);
    if (now == after->end())
      lines.push_back(fmt::format("{} is {}, and was not asked for now", path, value));
    else if (now->second != value)
      lines.push_back(fmt::format("{} is {}, not {}", path, value, now->second));
  }
  for (const auto& [path, value] : *after)
    if (!before->contains(path)) lines.push_back(fmt::format("{} is not there, and is {} now", path, value));
  return lines;
}

}  // namespace muster::sweep
