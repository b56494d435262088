#include "experiment/settings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "experiment/document_override.hpp"
#include "spec/alias.hpp"

namespace muster::experiment {
namespace {

class Flattening {
 public:
  Flattening(NodeReader& reader, const spec::Schema& schema, const Where& where, Settings& settings)
      : reader_(reader), schema_(schema), where_(where), settings_(settings), overruling_(settings.size(), false) {}

  void open(const Node& table, const std::string& prefix) {
    for (const Node::Entry& entry : table.entries) {
      const std::string key = prefix + entry.key;
      if (entry.value.kind == Node::Kind::null) continue;
      if (entry.value.kind == Node::Kind::table && schema_.find(key) == nullptr)
        open(entry.value, key + ".");
      else
        set(key, entry);
    }
  }

 private:
  void set(const std::string& key, const Node::Entry& entry) {
    const auto same = std::ranges::find(settings_, key, &Setting::key);
    const Setting setting{key, value_text(entry.value), where_(entry.position)};
    if (same == settings_.end()) {
      overruling_.push_back(is_override(entry.position));
      settings_.push_back(setting);
      return;
    }
    const auto position = static_cast<std::size_t>(same - settings_.begin());
    if (!is_override(entry.position) && !overruling_[position])
      reader_.refuse(entry.position, fmt::format("{} is set a second time (first by {})", key, same->where),
                     "keep one");
    if (is_override(entry.position)) *same = setting;
  }

  // As the command line writes it.
  static std::string value_text(const Node& node) {
    if (node.kind == Node::Kind::scalar) return node.text;
    std::vector<std::string> parts;
    for (const Node& item : node.items) parts.push_back(inner_text(item));
    for (const Node::Entry& entry : node.entries)
      parts.push_back(fmt::format("\"{}\": {}", entry.key, inner_text(entry.value)));
    const std::string inside = join(parts, ", ");
    return node.kind == Node::Kind::list ? fmt::format("[{}]", inside) : fmt::format("{{{}}}", inside);
  }

  static std::string inner_text(const Node& node) {
    if (node.kind != Node::Kind::scalar) return value_text(node);
    constexpr std::string_view plain = "._+-/";
    const bool is_plain = !node.quoted && std::ranges::all_of(node.text, [&](char letter) {
      return std::isalnum(static_cast<unsigned char>(letter)) != 0 || plain.find(letter) != std::string_view::npos;
    });
    if (is_plain && node.text.find_first_not_of("+-") != std::string::npos) return node.text;
    std::string text = "'";
    for (const char letter : node.text) text += letter == '\'' ? std::string("''") : std::string(1, letter);
    return text + "'";
  }

  NodeReader& reader_;
  const spec::Schema& schema_;
  const Where& where_;
  Settings& settings_;
  std::vector<bool> overruling_;  // by position in settings_: set by an argument
};

void set(Settings& settings, const Setting& setting) {
  const auto same = std::ranges::find(settings, setting.key, &Setting::key);
  if (same == settings.end())
    settings.push_back(setting);
  else
    *same = setting;
}

// An unknown key stays, so that it is refused.
bool is_left_to_others(std::string_view key, spec::Command command) {
  const std::string_view known = spec::canonical_key(key);
  return !spec::readers_of(known).empty() && !spec::reads(command, known);
}

}  // namespace

spec::Command command_of(StageKind kind) {
  switch (kind) {
    case StageKind::generate:
      return spec::Command::generate;
    case StageKind::train:
      return spec::Command::train;
    case StageKind::evaluate:
      break;
  }
  return spec::Command::evaluate;
}

bool is_setting_key(std::string_view key) {
  return std::ranges::find(setting_sections, key.substr(0, key.find('.'))) != setting_sections.end();
}

void flatten_settings(NodeReader& reader, const spec::Schema& schema, const Node& table, const Where& where,
                      Settings& settings) {
  Flattening(reader, schema, where, settings).open(table, "");
}

const Setting* find(const Settings& settings, std::string_view key) {
  const auto found = std::ranges::find(settings, key, &Setting::key);
  return found == settings.end() ? nullptr : &*found;
}

Settings settings_for(const ExperimentSpec& spec, const ExperimentJob& job, StageKind kind) {
  Settings settings;
  const auto add = [&](const Settings& more) {
    for (const Setting& setting : more) set(settings, setting);
  };
  add(spec.settings);
  add(job.family->settings);
  add(job.dataset->settings);
  if (kind == StageKind::train) {
    if (spec.stage(StageKind::generate).wanted) set(settings, {"data.path", "${data}", job.dataset->where});
    const std::string algorithm = to_lower(job.algorithm->name);
    for (const auto& word : words(spec::Algorithm{}))
      if (word.text == algorithm) set(settings, {"training.algorithm", algorithm, job.algorithm->where});
    add(job.algorithm->settings);
  }
  add(spec.stage(kind).settings);
  std::erase_if(settings, [&](const Setting& setting) { return is_left_to_others(setting.key, command_of(kind)); });
  return settings;
}

}  // namespace muster::experiment
