// muster evaluate: how good a model is on data and questions.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>

#include "cli/command.hpp"
#include "cli/configuration_options.hpp"
#include "cli/preparation_line.hpp"
#include "cli/status_line.hpp"
#include "cli/terminal.hpp"
#include "job/evaluate/evaluate.hpp"
#include "planning/plan_report.hpp"
#include "system/files.hpp"

namespace muster::cli {
namespace {

struct EvaluateCommand {
  std::shared_ptr<ConfigurationOptions> configuration;
  std::shared_ptr<InventoryOption> inventory;
  std::optional<std::string> data;
  std::optional<std::string> questions;
  std::optional<std::string> output;
  bool exact_match = false;
  bool dry_run = false;
  bool json = false;
};

Result<job::EvaluateRequest> request_of(const EvaluateCommand& given) {
  planning::GivenConfiguration configuration = *given.configuration;
  if (given.data) configuration.overrides.push_back({"data.eval_path", *given.data, "--data"});
  auto resolved = planning::resolve_configuration(spec::Schema(), configuration);
  if (!resolved) return resolved.error();
  return job::EvaluateRequest{std::move(*resolved), given.exact_match, given.questions,
                               given.dry_run ? host::Purpose::plan : host::Purpose::compute};
}

int show_plan(const job::EvaluatePlan& plan, bool json) {
  const planning::PlanCommandLine command({{"", {plan.task().model.name}},
                                          {"--implementation", {"muster"}},
                                          {"--device", {plan.question.devices.empty() ? "cpu" : "cuda"}},
                                          {"--dtype", {std::string(name(plan.plan.workload.weights))}},
                                          {"--batch", {std::to_string(plan.plan.workload.micro_batch)}},
                                          {"--seq-len", {std::to_string(plan.plan.workload.sequence)}}},
                                         plan::Work::inference);
  if (json)
    show_json(planning::plan_json(plan.question, plan.plan, command) + "\n");
  else
    show(planning::plan_text(plan.question, plan.plan, command, output_has_colour()));
  return plan.plan.fits() ? 0 : exit_code(Error::Kind::refused);
}

int finish(const EvaluateCommand& given, const job::EvaluatePlan& plan, const job::EvaluateSummary& summary) {
  if (summary.exit_code != 0) return summary.exit_code;
  if (given.output) {
    const std::string text = job::summary_json(plan, summary, true).dump(2) + "\n";
    if (auto written = write_file_atomically(*given.output, text); !written) return report(written.error());
  }
  if (given.json)
    show_json(job::summary_json(plan, summary, false).dump() + "\n");
  else
    show(job::summary_text(plan, summary));
  return 0;
}

int run_evaluate(const EvaluateCommand& given) {
  const auto request = request_of(given);
  if (!request) return report(request.error());
  if (given.configuration->print) {
    print_resolved(spec::Schema(), request->settings, given.json);
    return 0;
  }
  for (const std::string& text : request->settings.notes) note(text);
  host::Host host = open_host(*given.inventory);
  StatusLine line;
  const auto plan = job::plan_evaluation(host, *request, show_preparation(line));
  line.clear();
  if (!plan) return report(plan.error());
  if (given.dry_run) return show_plan(*plan, given.json);
  for (const std::string& text : plan->question.model->notes) note(text);
  for (const std::string& text : plan->notes) note(text);
  if (!plan->plan.fits()) return report(job::refusal_of(*plan));
  ::signal(SIGPIPE, SIG_IGN);
  job::EvaluateListener listener;
  listener.note = [&](const std::string& text) {
    line.clear();
    note(text);
  };
  listener.progress = [&](const job::JobProgress& progress) {
    line.show(job::progress_line(progress), progress.elapsed);
  };
  const auto summary = job::evaluate(host, *plan, listener);
  line.clear();
  if (!summary) return report(summary.error());
  return finish(given, *plan, *summary);
}

}  // namespace

void add_evaluate_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("evaluate", "measure how good a model is: loss, perplexity, and exact match by generation");
  auto given = std::make_shared<EvaluateCommand>();
  command->add_option("--data", given->data,
                      "file or folder of rows, or builtin:arithmetic, whose held-out questions are asked "
                      "(data.eval_path; else data.path)");
  command->add_flag("--exact-match", given->exact_match,
                    "answer the rows, too: completions and last messages of the assistant are right answers");
  command->add_option("--questions", given->questions,
                      "file of JSON lines with prompt or messages, and answer, to be answered");
  command->add_option("-o", given->output, "file for the result as JSON, with all answers");
  command->add_flag("--dry-run", given->dry_run, "show the plan, and start nothing");
  command->add_flag("--json", given->json, "the result for programs; with --dry-run, the plan");
  given->inventory = add_inventory_option(*command);
  given->configuration = add_configuration_options(*command);
  command->callback([&action, given] { action.run = [given](const Tail&) { return run_evaluate(*given); }; });
}

}  // namespace muster::cli
