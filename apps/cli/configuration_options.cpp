#include "cli/configuration_options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "spec/alias.hpp"

extern char** environ;

namespace muster::cli {
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

std::shared_ptr<ConfigurationOptions> add_configuration_options(CLI::App& command) {
  auto options = std::make_shared<ConfigurationOptions>();
  const spec::Schema schema;
  command.add_option("-c,--config", options->file, "YAML or JSON file with settings (also MUSTER_CONFIG)");
  for (const spec::ShortOption& shortened : spec::short_options()) {
    const std::string name(shortened.option);
    const std::string names = name == "--num-gpus" ? "-n," + name : name;
    auto* option = command.add_option(names, options->short_values[name],
                                      fmt::format("{} ({})", schema.find(shortened.key)->help, shortened.key));
    if (shortened.many)
      option->expected(1, -1);
    else
      option->expected(1)->allow_extra_args(false);  // the next word is a setting
  }
  command.add_flag("--print-config", options->print, "show every value and where it came from, and stop");
  command.add_option("SETTINGS", options->settings, "settings as section.key=value, as in training.max_steps=100");
  return options;
}

Result<spec::ResolvedSpec> resolve_configuration(const spec::Schema& schema, const ConfigurationOptions& options) {
  spec::Sources sources;
  sources.environment = whole_environment();
  std::optional<std::string> file = options.file;
  if (const char* named = std::getenv("MUSTER_CONFIG"); !file && named != nullptr) file = named;
  if (file) {
    auto text = read_file(*file);
    if (!text) return text.error();
    sources.file = spec::ConfigurationFile{*file, std::move(*text)};
  }
  std::vector<std::string> settings = options.settings;
  for (const spec::ShortOption& shortened : spec::short_options()) {
    const auto given = options.short_values.find(std::string(shortened.option));
    if (given == options.short_values.end() || given->second.empty()) continue;
    std::vector<std::string> values;
    for (const std::string& value : given->second) {
      // --gpu-ids takes all words up to the next option; a setting among them is a setting.
      if (shortened.many && value.find('=') != std::string::npos)
        settings.push_back(value);
      else
        values.push_back(value);
    }
    sources.overrides.push_back({std::string(shortened.key), join(values, ","), std::string(shortened.option)});
  }
  sources.overrides.insert(sources.overrides.end(), options.overrides.begin(), options.overrides.end());
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
  if (resolved)
    for (const std::string& text : resolved->notes) note(text);
  return resolved;
}

void print_resolved(const spec::Schema& schema, const spec::ResolvedSpec& resolved, bool json) {
  if (!json) {
    fmt::print("{}", spec::print_configuration(schema, resolved));
    return;
  }
  nlohmann::ordered_json values;
  for (const spec::Field& field : schema.fields()) {
    const auto origin = resolved.origins.find(field.key);
    values[field.key] = {{"value", field.write(resolved.spec)},
                         {"origin", origin == resolved.origins.end() ? "built-in" : origin->second.where}};
  }
  fmt::print("{}\n", values.dump(2));
}

}  // namespace muster::cli
