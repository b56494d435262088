#include "cli/configuration_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "spec/alias.hpp"

namespace muster::cli {
namespace {

// muster plan only learns later which of its two it is; muster config is neither.
std::optional<spec::Command> command_that_reads(const std::string& name) {
  if (name == "train") return spec::Command::train;
  if (name == "generate") return spec::Command::generate;
  if (name == "evaluate") return spec::Command::evaluate;
  if (name == "collect") return spec::Command::collect;
  return std::nullopt;
}

}  // namespace

namespace {

// The heading of a short option in help, by the section of its key.
std::string group_of(std::string_view key) {
  const std::string_view section = key.substr(0, key.find('.'));
  if (section == "distributed") return "Devices";
  if (section == "experiment") return "Run";
  return section == "model" ? "Model" : "Training";
}

}  // namespace

std::shared_ptr<ConfigurationOptions> add_configuration_options(CLI::App& command, Training training) {
  auto options = std::make_shared<ConfigurationOptions>();
  options->command = command_that_reads(command.get_name());
  const spec::Schema schema;
  command.add_option("-c,--config", options->file, "YAML or JSON file with settings (also MUSTER_CONFIG)");
  for (const spec::ShortOption& shortened : spec::short_options()) {
    if (shortened.trains && training == Training::no) continue;
    const std::string name(shortened.option);
    // A letter that the command has given to an option of its own is not taken.
    const bool has_letter = shortened.letter != '\0' && command.get_option_no_throw(fmt::format("-{}", shortened.letter)) == nullptr;
    const std::string names = has_letter ? fmt::format("-{},{}", shortened.letter, name) : name;
    const spec::Field& field = *schema.find(shortened.key);
    const std::string choice = field.is_choice ? ": " + field.accepted : "";
    auto* option = command.add_option(names, options->short_values[name],
                                      fmt::format("{}{} ({})", field.help, choice, shortened.key));
    option->group(group_of(shortened.key));
    if (shortened.values == spec::ShortOption::Values::several)
      option->expected(1, -1);
    else
      option->expected(1)->allow_extra_args(false);  // the next word is a setting
    if (shortened.values == spec::ShortOption::Values::one_each)
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  command.add_flag("--print-config", options->print, "show every value and where it came from, and stop");
  command.add_option("SETTINGS", options->settings,
                     "a configuration file, as --config names it, and settings as section.key=value, as in "
                     "training.max_steps=100");
  return options;
}

Result<spec::ResolvedSpec> resolve_configuration(const spec::Schema& schema, const ConfigurationOptions& options) {
  auto resolved = planning::resolve_configuration(schema, options);
  if (resolved)
    for (const std::string& text : resolved->notes) note(text);
  return resolved;
}

void take_bare_resume(planning::GivenConfiguration& configuration) {
  std::vector<std::string>& words = configuration.short_values["--resume"];
  if (words.empty()) return;
  if (words.front().find('=') != std::string::npos) configuration.settings.push_back(words.front());
  if (words.front().empty() || words.front().find('=') != std::string::npos) words = {"auto"};
}

void print_resolved(const spec::Schema& schema, const spec::ResolvedSpec& resolved, bool json) {
  if (!json) {
    show(spec::print_configuration(schema, resolved));
    return;
  }
  nlohmann::ordered_json values;
  for (const spec::Field& field : schema.fields()) {
    const auto origin = resolved.origins.find(field.key);
    values[field.key] = {{"value", field.write(resolved.spec)},
                         {"origin", origin == resolved.origins.end() ? "built-in" : origin->second.where}};
  }
  show_json(values.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace muster::cli
