// muster config: what can be set.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/command.hpp"
#include "cli/configuration_options.hpp"

namespace muster::cli {
namespace {

void list_settings(const spec::Schema& schema, const std::string& only) {
  for (const spec::Field& field : schema.fields()) {
    if (!only.empty() && field.key.find(only) == std::string::npos) continue;
    const std::string unit = field.unit.empty() ? "" : " (" + field.unit + ")";
    fmt::print("{} = {}\n    {}\n    accepted: {}{}\n", field.key, field.fallback, field.help, field.accepted, unit);
  }
}

}  // namespace

void add_config_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("config", "list every setting with its default, or check a configuration");
  auto options = add_configuration_options(*command, Training::yes);
  auto page = std::make_shared<bool>(false);
  auto only = std::make_shared<std::string>();
  command->add_flag("--page", *page, "print docs/configuration.md");
  command->add_option("--find", *only, "list only the settings whose key contains this");
  command->add_flag("--json", options->json, "with --config, settings or --print-config: as JSON");
  command->callback([&action, options, page, only] {
    action.run = [options, page, only](const Tail&) {
      const spec::Schema schema;
      if (*page) {
        fmt::print("{}", spec::configuration_page(schema));
        return 0;
      }
      bool asked = options->print || options->file || !options->settings.empty();
      for (const auto& [option, values] : options->short_values) asked = asked || !values.empty();
      if (!asked) {
        list_settings(schema, *only);
        return 0;
      }
      const auto resolved = resolve_configuration(schema, *options);
      if (!resolved) return report(resolved.error());
      print_resolved(schema, *resolved, options->json);
      return 0;
    };
  });
}

}  // namespace muster::cli
