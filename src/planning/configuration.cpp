#include "planning/configuration.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "spec/alias.hpp"
#include "system/files.hpp"

extern char** environ;

namespace muster::planning {
namespace {

std::vector<std::pair<std::string, std::string>> whole_environment() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

bool names_a_file(const std::string& word) {
  if (word.find('=') != std::string::npos) return false;
  const std::string lower = to_lower(word);
  return lower.ends_with(".yaml") || lower.ends_with(".yml") || lower.ends_with(".json");
}

// A word that names a file is the configuration file; it leaves the settings.
Result<std::optional<std::string>> take_file(const GivenConfiguration& given, std::vector<std::string>& settings) {
  std::optional<std::string> file = given.file;
  for (const std::string& word : settings) {
    if (!names_a_file(word)) continue;
    if (file)
      return Error{Error::Kind::bad_input, fmt::format("two configuration files: {} and {}", *file, word),
                   "name one; settings on the command line go over it: training.max_steps=100"};
    file = word;
  }
  std::erase_if(settings, names_a_file);
  if (const char* named = std::getenv("MUSTER_CONFIG"); !file && named != nullptr) file = named;
  return file;
}

}  // namespace

Result<spec::ResolvedSpec> resolve_configuration(const spec::Schema& schema, const GivenConfiguration& given) {
  spec::Sources sources;
  sources.environment = whole_environment();
  std::vector<std::string> settings = given.settings;
  const auto file = take_file(given, settings);
  if (!file) return file.error();
  if (*file) {
    auto text = read_file(**file);
    if (!text) return text.error();
    sources.file = spec::ConfigurationFile{**file, std::move(*text)};
  }
  for (const spec::ShortOption& shortened : spec::short_options()) {
    const auto words = given.short_values.find(std::string(shortened.option));
    if (words == given.short_values.end() || words->second.empty()) continue;
    std::vector<std::string> values;
    for (const std::string& value : words->second) {
      // --gpu-ids takes all words up to the next option; a setting among them is a setting.
      if (shortened.values == spec::ShortOption::Values::several && value.find('=') != std::string::npos)
        settings.push_back(value);
      else
        values.push_back(value);
    }
    sources.overrides.push_back({std::string(shortened.key), join(values, ","), std::string(shortened.option)});
  }
  sources.overrides.insert(sources.overrides.end(), given.overrides.begin(), given.overrides.end());
  std::vector<Problem> malformed;
  for (const std::string& setting : settings) {
    auto override = spec::parse_override(setting);
    if (override)
      sources.overrides.push_back(std::move(*override));
    else
      malformed.push_back({"", override.error().what, override.error().remedy});
  }
  if (!malformed.empty()) return to_error(malformed);
  auto resolved = spec::resolve(schema, sources);
  if (!resolved || !given.command) return resolved;
  if (const auto unread = find_unread(schema, *given.command, *resolved); !unread.empty()) return to_error(unread);
  return resolved;
}

}  // namespace muster::planning
