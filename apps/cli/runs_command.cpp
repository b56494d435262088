// muster runs: what was trained, one run in detail, two side by side.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "runs/run_comparison.hpp"
#include "runs/run_details.hpp"
#include "runs/run_samples.hpp"
#include "runs/runs.hpp"
#include "spec/run_spec.hpp"
#include "spec/schema.hpp"
#include "store/find_run.hpp"

namespace muster::cli {

std::string usual_output() {
  const char* given = std::getenv(spec::environment_name("experiment.output").c_str());
  return given == nullptr || *given == '\0' ? spec::ExperimentSpec{}.output : given;
}

namespace {

struct RunsOptions {
  std::string output = usual_output();
  bool json = false;
  std::string first, second;
  std::optional<std::size_t> samples;  // prompts whose answers are shown
  std::optional<std::int64_t> round;
};

constexpr std::size_t usual_samples = 5;

store::TextPlotForm plot_form() { return {output_width(), 12, output_is_unicode(), output_has_colour()}; }

int list(const RunsOptions& options) {
  const auto runs = runs::list_runs(options.output);
  if (options.json)
    show_json(runs::runs_json(runs) + "\n");
  else
    show(runs::runs_text(runs, options.output, output_has_colour()));
  return 0;
}

int show_run(const RunsOptions& options) {
  const auto run = store::find_run(options.output, options.first);
  if (!run) return report(run.error());
  if (options.samples || options.round) {
    const auto samples = runs::read_samples(*run, options.round);
    if (!samples) return report(samples.error());
    const std::size_t prompts = options.samples.value_or(0) == 0 ? usual_samples : *options.samples;
    options.json ? show_json(runs::samples_json(*samples, prompts) + "\n")
                 : cli::show(runs::samples_text(*samples, prompts));
    return 0;
  }
  const runs::RunDetails details = runs::describe_run(*run);
  options.json ? show_json(runs::run_json(details) + "\n") : cli::show(runs::run_text(details, plot_form()));
  return 0;
}

int compare(const RunsOptions& options) {
  const auto first = store::find_run(options.output, options.first);
  if (!first) return report(first.error());
  const auto second = store::find_run(options.output, options.second);
  if (!second) return report(second.error());
  const runs::RunComparison comparison = runs::compare_runs(*first, *second);
  options.json ? show_json(runs::comparison_json(comparison) + "\n")
               : cli::show(runs::comparison_text(comparison, plot_form()));
  return 0;
}

void add_common(CLI::App& command, RunsOptions& options) {
  command.add_option("--output", options.output, "folder that holds the runs' folders")->capture_default_str();
  command.add_flag("--json", options.json, "for programs");
}

CLI::Option* add_run(CLI::App& command, const std::string& name, std::string& value) {
  return command.add_option(name, value, "a run's name or the beginning of it, its path, or latest")->required();
}

}  // namespace

void add_runs_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("runs", "list runs, show one, compare two");
  auto options = std::make_shared<RunsOptions>();
  add_common(*command, *options);
  command->require_subcommand(0, 1);
  CLI::App* list_command =
      command->add_subcommand("list", "every run with its status, steps, loss, exact match, time: as without a word");
  add_common(*list_command, *options);
  CLI::App* show_command =
      command->add_subcommand("show", "settings, plan, metrics, loss curve, checkpoints and last error of a run");
  add_common(*show_command, *options);
  add_run(*show_command, "NAME", options->first);
  show_command
      ->add_option("--samples", options->samples, "instead: what the model answered, of the first N prompts of a round (5)")
      ->expected(0, 1)
      ->default_str("0")
      ->type_name("N");
  show_command->add_option("--round", options->round, "of which round; otherwise of the newest")->type_name("N");
  CLI::App* compare_command = command->add_subcommand(
      "compare", "settings that differ, final metrics, both loss curves, and the first step at which they differ");
  add_common(*compare_command, *options);
  add_run(*compare_command, "A", options->first);
  add_run(*compare_command, "B", options->second);
  command->callback([&action, options, show_command, compare_command] {
    action.run = [options, show_command, compare_command](const Tail&) {
      if (show_command->parsed()) return show_run(*options);
      return compare_command->parsed() ? compare(*options) : list(*options);
    };
  });
}

}  // namespace muster::cli
