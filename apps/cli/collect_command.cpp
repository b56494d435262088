// muster collect: trajectories of a model in an environment.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <map>

#include "cli/command.hpp"
#include "cli/configuration_options.hpp"
#include "cli/status_line.hpp"
#include "cli/terminal.hpp"
#include "job/collect/collect.hpp"
#include "job/generate/generate_options.hpp"
#include "job/generate/generation_defaults.hpp"
#include "planning/plan_report.hpp"

namespace muster::cli {
namespace {

struct CollectCommand {
  std::shared_ptr<ConfigurationOptions> configuration;
  std::shared_ptr<InventoryOption> inventory;
  std::map<std::string, std::vector<std::string>> values;  // of job::generate_settings()
  std::optional<std::string> environment;
  std::optional<std::string> data;
  std::optional<std::string> output;
  std::optional<double> least_reward;
  std::int64_t episodes = 100;
  bool dry_run = false;
  bool json = false;
};

Result<job::CollectRequest> request_of(const CollectCommand& given) {
  planning::GivenConfiguration configuration = *given.configuration;
  if (given.environment) configuration.overrides.push_back({"environment.type", *given.environment, "--environment"});
  if (given.data) configuration.overrides.push_back({"data.path", *given.data, "--data"});
  for (const job::GenerateSetting& setting : job::generate_settings()) {
    const auto typed = given.values.find(std::string(setting.option));
    if (typed == given.values.end() || typed->second.empty()) continue;
    auto text = job::setting_text(setting, typed->second);
    if (!text) return text.error();
    configuration.overrides.push_back({std::string(setting.key), std::move(*text), std::string(setting.option)});
  }
  auto resolved = planning::resolve_configuration(spec::Schema(), configuration);
  if (!resolved) return resolved.error();
  if (auto added = job::add_generation_defaults(*resolved); !added) return added.error();
  return job::CollectRequest{std::move(*resolved), given.episodes, given.least_reward, given.output.value_or("-"),
                             given.dry_run ? host::Purpose::plan : host::Purpose::compute};
}

int show_collection(const job::GeneratePlan& plan, bool json) {
  const planning::PlanCommandLine command({{"", {plan.task().model.name}},
                                           {"--implementation", {"muster"}},
                                           {"--device", {plan.question.devices.empty() ? "cpu" : "cuda"}},
                                           {"--dtype", {std::string(name(plan.plan.workload.weights))}},
                                           {"--batch", {std::to_string(plan.task().batch_size)}},
                                           {"--seq-len", {std::to_string(plan.task().sequence_length)}}},
                                          plan::Work::inference);
  if (json)
    show_json(planning::plan_json(plan.question, plan.plan, command) + "\n");
  else
    show(planning::plan_text(plan.question, plan.plan, command, output_has_colour()));
  return plan.plan.fits() ? 0 : exit_code(Error::Kind::refused);
}

int run_collect(const CollectCommand& given) {
  const auto request = request_of(given);
  if (!request) return report(request.error());
  if (given.configuration->print) {
    print_resolved(spec::Schema(), request->settings, given.json);
    return 0;
  }
  if (given.json && !given.dry_run && request->output == "-")
    return report(bad_input("--json writes the summary to standard output, where the trajectories go", "-o FILE"));
  for (const std::string& text : request->settings.notes) note(text);
  host::Host host = open_host(*given.inventory);
  const auto plan = job::plan_collection(host, *request);
  if (!plan) return report(plan.error());
  if (given.dry_run) return show_collection(plan->generation, given.json);
  for (const std::string& text : plan->generation.question.model->notes) note(text);
  for (const std::string& text : plan->generation.notes) note(text);
  if (!plan->generation.plan.fits()) return report(job::refusal_of(plan->generation));
  ::signal(SIGPIPE, SIG_IGN);  // a reader that is gone is reported as an error of writing
  StatusLine line;
  job::CollectListener listener;
  listener.note = [&](const std::string& text) {
    line.clear();
    note(text);
  };
  if (line.visible())
    listener.progress = [&](const std::string& text, std::chrono::milliseconds elapsed) { line.show(text, elapsed); };
  const auto summary = job::collect(host, *request, *plan, listener);
  line.clear();
  if (!summary) return report(summary.error());
  if (given.json)
    show_json(job::summary_json(*plan, *summary) + "\n");
  else
    note(job::summary_text(*plan, *summary));
  return summary->exit_code;
}

}  // namespace

void add_collect_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("collect", "let a model play episodes of an environment, and write down its trajectories");
  auto given = std::make_shared<CollectCommand>();
  command->add_option("-e,--environment", given->environment, "code, math, tool, debate or program (environment.type)");
  command->add_option("--data", given->data, "file or folder of JSON lines, an episode each (data.path)");
  command->add_option("-n", given->episodes, "episodes to play; more than there are rows begin with the first one again")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 32))
      ->capture_default_str();
  command->add_option("--filter-reward", given->least_reward, "write down only what earned as much, or more");
  command->add_option("-o", given->output, "file for the trajectories, JSON lines; not set or -: standard output");
  const spec::Schema schema;
  for (const job::GenerateSetting& setting : job::generate_settings()) {
    if (setting.key == "generation.samples") continue;
    const bool repeatable = setting.form == job::GenerateSetting::Form::texts;
    command
        ->add_option(std::string(setting.option), given->values[std::string(setting.option)],
                     fmt::format("{} ({})", schema.find(setting.key)->help, setting.key))
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(repeatable ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::Throw);
  }
  command->add_flag("--dry-run", given->dry_run, "show the plan, and start nothing");
  command->add_flag("--json", given->json, "the summary for programs; with --dry-run, the plan");
  given->inventory = add_inventory_option(*command);
  given->configuration = add_configuration_options(*command);
  command->callback([&action, given] { action.run = [given](const Tail&) { return run_collect(*given); }; });
}

}  // namespace muster::cli
