#include "experiment/document_override.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace muster::experiment {
namespace {

void place(Node& node, TextPosition position) {
  node.position = position;
  for (Node& item : node.items) place(item, position);
  for (Node::Entry& entry : node.entries) {
    entry.position = position;
    place(entry.value, position);
  }
}

// Brackets, braces and quotes are YAML, anything else is one scalar.
Result<Node> value_of(std::string_view text, const std::string& argument) {
  constexpr std::string_view openings = "[{\"'";
  const std::string_view trimmed = trim(text);
  if (!trimmed.empty() && openings.find(trimmed.front()) != std::string_view::npos)
    return parse_document(trimmed, argument);
  Node node;
  node.kind = trimmed.empty() || trimmed == "null" ? Node::Kind::null : Node::Kind::scalar;
  node.text = trimmed;
  return node;
}

// The longest of a table's keys that the path begins with.
Node::Entry* entry_for(Node& table, std::string_view path) {
  Node::Entry* found = nullptr;
  for (Node::Entry& entry : table.entries) {
    const bool leads = path == entry.key || path.starts_with(entry.key + ".");
    if (leads && (found == nullptr || entry.key.size() > found->key.size())) found = &entry;
  }
  return found;
}

std::optional<Problem> set(Node& root, std::string_view path, Node value, const std::string& argument) {
  Node* table = &root;
  const std::string whole(path);
  while (true) {
    if (table->kind == Node::Kind::null) table->kind = Node::Kind::table;
    if (table->kind != Node::Kind::table)
      return Problem{
          argument,
          fmt::format("{} is {} in the file", whole.substr(0, whole.size() - path.size() - 1), describe(*table)),
          "a table is needed there to set one of its keys"};
    Node::Entry* entry = entry_for(*table, path);
    const std::string_view key = entry != nullptr ? entry->key : path.substr(0, path.find('.'));
    const std::string_view rest = key.size() == path.size() ? "" : path.substr(key.size() + 1);
    if (entry == nullptr) {
      table->entries.push_back({std::string(key), value.position, {}});
      entry = &table->entries.back();
      entry->value.position = value.position;
    }
    if (rest.empty()) {
      entry->position = value.position;
      entry->value = std::move(value);
      return std::nullopt;
    }
    table = &entry->value;
    path = rest;
  }
}

}  // namespace

void apply_overrides(Node& root, const std::vector<std::string>& overrides, std::vector<Problem>& problems) {
  for (std::size_t number = 0; number < overrides.size(); ++number) {
    const std::string& argument = overrides[number];
    const auto equals = argument.find('=');
    const std::string_view path = std::string_view(argument).substr(0, equals);
    if (equals == std::string::npos || path.empty() || path.front() == '.' || path.back() == '.' ||
        path.find("..") != std::string_view::npos) {
      problems.push_back({argument, "this is not a setting", "write key=value, as in experiment.name=first"});
      continue;
    }
    auto value = value_of(std::string_view(argument).substr(equals + 1), argument);
    if (!value) {
      problems.push_back({"", value.error().what, value.error().remedy});
      continue;
    }
    place(*value, {0, static_cast<int>(number)});
    if (auto problem = set(root, path, std::move(*value), argument)) problems.push_back(std::move(*problem));
  }
}

std::string location_of(std::string_view source, const std::vector<std::string>& overrides, TextPosition position) {
  if (!is_override(position)) return location(source, position);
  return overrides[static_cast<std::size_t>(position.column)];
}

}  // namespace muster::experiment
