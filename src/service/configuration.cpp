#include "service/configuration.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/files.hpp"
#include "base/text.hpp"
#include "spec/alias.hpp"

extern char** environ;

namespace muster::service {
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

}  // namespace

Result<spec::ResolvedSpec> resolve_configuration(const spec::Schema& schema, const GivenConfiguration& given) {
  spec::Sources sources;
  sources.environment = whole_environment();
  std::optional<std::string> file = given.file;
  if (const char* named = std::getenv("MUSTER_CONFIG"); !file && named != nullptr) file = named;
  if (file) {
    auto text = read_file(*file);
    if (!text) return text.error();
    sources.file = spec::ConfigurationFile{*file, std::move(*text)};
  }
  std::vector<std::string> settings = given.settings;
  for (const spec::ShortOption& shortened : spec::short_options()) {
    const auto words = given.short_values.find(std::string(shortened.option));
    if (words == given.short_values.end() || words->second.empty()) continue;
    std::vector<std::string> values;
    for (const std::string& value : words->second) {
      // --gpu-ids takes all words up to the next option; a setting among them is a setting.
      if (shortened.many && value.find('=') != std::string::npos)
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
  return spec::resolve(schema, sources);
}

}  // namespace muster::service
