// muster plan: whether work fits, where everything goes, and what to change when it does not.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/command.hpp"
#include "cli/configuration_options.hpp"
#include "cli/terminal.hpp"
#include "planning/plan_options.hpp"
#include "planning/plan_report.hpp"
#include "system/files.hpp"

namespace muster::cli {
namespace {

struct PlanCommand {
  planning::PlanOptions options;
  std::shared_ptr<ConfigurationOptions> configuration;
  std::shared_ptr<InventoryOption> inventory;
  std::optional<std::string> plot;
  bool json = false;
};

// What was typed, option by option, so that a remedy can repeat it with one change.
std::vector<planning::PlanCommandLine::Given> typed_options(const CLI::App& command) {
  std::vector<planning::PlanCommandLine::Given> given;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    const bool flag = option->get_expected_max() == 0;
    const auto names = option->get_lnames();
    const std::string name = names.empty() ? "" : "--" + names.front();
    if (name == "--json" || name == "--plot") continue;
    given.push_back({name, flag ? std::vector<std::string>{} : option->results()});
  }
  return given;
}

int print_settings(planning::PlanOptions options, bool json) {
  const auto resolved = planning::resolve_plan_settings(options);
  if (!resolved) return report(resolved.error());
  for (const std::string& text : resolved->notes) note(text);
  print_resolved(spec::Schema(), *resolved, json);
  return 0;
}

int run_plan(const PlanCommand& given, const CLI::App& command) {
  planning::PlanOptions options = given.options;
  options.configuration = *given.configuration;
  if (given.configuration->print) return print_settings(std::move(options), given.json);
  host::Host host = open_host(*given.inventory);
  const auto answer = planning::answer_plan(host, std::move(options));
  if (!answer) return report(answer.error());
  for (const std::string& text : answer->notes) note(text);
  const auto& [question, made, notes] = *answer;
  const planning::PlanCommandLine typed(typed_options(command), question.workload.work);
  if (given.plot)
    if (auto written = write_file_atomically(*given.plot, planning::plan_plot(question, made)); !written)
      return report(written.error());
  if (given.json)
    show_json(planning::plan_json(question, made, typed) + "\n");
  else
    show(planning::plan_text(question, made, typed, output_has_colour()));
  return made.fits() ? 0 : exit_code(Error::Kind::refused);
}

void add_option(CLI::App& command, planning::PlanOptions& options, const planning::PlanOption& option) {
  const std::string name(option.option), help(option.help);
  if (const auto* flag = std::get_if<bool planning::PlanOptions::*>(&option.member))
    command.add_flag(name, options.**flag, help);
  else if (const auto* text = std::get_if<std::string planning::PlanOptions::*>(&option.member))
    command.add_option(name, options.**text, help)->capture_default_str();
  else if (const auto* number = std::get_if<std::optional<std::int64_t> planning::PlanOptions::*>(&option.member))
    command.add_option(name, options.**number, help);
  else
    command.add_option(name, options.*std::get<std::optional<std::string> planning::PlanOptions::*>(option.member),
                       help);
}

}  // namespace

void add_plan_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand(
      "plan", "show whether a model fits, where every byte goes, and what to change when it does not");
  auto given = std::make_shared<PlanCommand>();
  for (const planning::PlanOption& option : planning::plan_options()) add_option(*command, given->options, option);
  for (const planning::PlanSetting& setting : planning::plan_settings())
    command->add_option(std::string(setting.option), given->options.values[std::string(setting.option)],
                        std::string(setting.help));
  command->add_option("--plot", given->plot, "write a picture of the plan to this SVG file");
  command->add_flag("--json", given->json, "for programs");
  given->inventory = add_inventory_option(*command);
  given->configuration = add_configuration_options(*command, Training::yes);
  command->get_option("SETTINGS")
      ->description(
          "the model (folder, config.json, GGUF file, name in the Hugging Face cache) or a run's configuration file; "
          "settings as section.key=value");
  command->callback(
      [&action, given, command] { action.run = [given, command](const Tail&) { return run_plan(*given, *command); }; });
}

}  // namespace muster::cli
