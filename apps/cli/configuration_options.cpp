#include "cli/configuration_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "spec/alias.hpp"

namespace muster::cli {

std::shared_ptr<ConfigurationOptions> add_configuration_options(CLI::App& command) {
  auto options = std::make_shared<ConfigurationOptions>();
  const spec::Schema schema;
  command.add_option("-c,--config", options->file, "YAML or JSON file with settings (also MUSTER_CONFIG)");
  for (const spec::ShortOption& shortened : spec::short_options()) {
    const std::string name(shortened.option);
    const std::string names = shortened.letter == '\0' ? name : fmt::format("-{},{}", shortened.letter, name);
    const spec::Field& field = *schema.find(shortened.key);
    const std::string choice = field.is_choice ? ": " + field.accepted : "";
    auto* option = command.add_option(names, options->short_values[name],
                                      fmt::format("{}{} ({})", field.help, choice, shortened.key));
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
  auto resolved = service::resolve_configuration(schema, options);
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
