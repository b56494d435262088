#include "runs/run_settings.hpp"

#include <algorithm>

#include "base/document.hpp"
#include "base/text.hpp"
#include "system/regular_file.hpp"

namespace muster::runs {
namespace {

std::string as_written(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "null";
    case Node::Kind::scalar:
      return node.text;
    case Node::Kind::list: {
      std::vector<std::string> items;
      for (const Node& item : node.items) items.push_back(as_written(item));
      return "[" + join(items, ", ") + "]";
    }
    case Node::Kind::table: {
      std::vector<std::string> entries;
      for (const Node::Entry& entry : node.entries) entries.push_back(entry.key + ": " + as_written(entry.value));
      return "{" + join(entries, ", ") + "}";
    }
  }
  return "";
}

void gather(const spec::Schema& schema, const std::string& key, const Node& node, RunSettings& settings) {
  if (const spec::Field* field = schema.find(key)) {
    spec::RunSpec spec;
    settings[key] = field->read(spec, node) ? field->write(spec) : as_written(node);
  } else if (node.kind == Node::Kind::table && !node.entries.empty()) {
    for (const Node::Entry& entry : node.entries)
      gather(schema, key.empty() ? entry.key : key + "." + entry.key, entry.value, settings);
  } else if (!key.empty()) {
    settings[key] = as_written(node);
  }
}

// Keys of both, in the order of the schema, then those that it lacks.
std::vector<std::string> keys_of(const spec::Schema& schema, const RunSettings& first, const RunSettings& second) {
  std::vector<std::string> keys;
  for (const std::string& key : schema.keys())
    if (first.contains(key) || second.contains(key)) keys.push_back(key);
  for (const RunSettings* settings : {&first, &second})
    for (const auto& [key, value] : *settings)
      if (schema.find(key) == nullptr && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  return keys;
}

std::optional<std::string> value_of(const spec::Schema& schema, const RunSettings& settings, const std::string& key) {
  if (const auto found = settings.find(key); found != settings.end()) return found->second;
  const spec::Field* field = schema.find(key);
  return field == nullptr ? std::nullopt : std::optional(field->fallback);
}

}  // namespace

Result<RunSettings> parse_run_settings(const spec::Schema& schema, std::string_view text, const std::string& source) {
  const auto document = parse_document(text, source);
  if (!document) return document.error();
  RunSettings settings;
  gather(schema, "", *document, settings);
  return settings;
}

Result<RunSettings> read_run_settings(const spec::Schema& schema, const std::filesystem::path& spec_file) {
  const auto file = RegularFile::open(spec_file);
  if (!file) return file.error();
  const auto text = file->beginning(file->size());
  if (!text) return text.error();
  return parse_run_settings(schema, *text, spec_file.string());
}

std::vector<RunSetting> changed_settings(const spec::Schema& schema, const RunSettings& settings) {
  std::vector<RunSetting> changed;
  for (const std::string& key : keys_of(schema, settings, {})) {
    const spec::Field* field = schema.find(key);
    if (field == nullptr || field->fallback != settings.at(key)) changed.push_back({key, settings.at(key)});
  }
  return changed;
}

std::vector<SettingDifference> setting_differences(const spec::Schema& schema, const RunSettings& first,
                                                   const RunSettings& second) {
  std::vector<SettingDifference> differences;
  for (const std::string& key : keys_of(schema, first, second)) {
    SettingDifference difference{key, value_of(schema, first, key), value_of(schema, second, key)};
    if (difference.first != difference.second) differences.push_back(std::move(difference));
  }
  return differences;
}

}  // namespace muster::runs
