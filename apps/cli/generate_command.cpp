// muster generate: answers to prompts, scores of completions, or a conversation.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "base/count_of.hpp"
#include "cli/command.hpp"
#include "cli/configuration_options.hpp"
#include "cli/status_line.hpp"
#include "cli/terminal.hpp"
#include "job/generate/conversation.hpp"
#include "job/generate/generate.hpp"
#include "job/generate/generate_options.hpp"
#include "job/generate/generation_defaults.hpp"
#include "planning/plan_report.hpp"

namespace muster::cli {
namespace {

struct GenerateCommand {
  std::shared_ptr<ConfigurationOptions> configuration;
  std::shared_ptr<InventoryOption> inventory;
  std::map<std::string, std::vector<std::string>> values;  // of service::generate_settings()
  std::optional<std::string> prompts;
  std::optional<std::string> output;
  std::optional<std::string> system;
  bool score = false;
  bool interactive = false;
  bool log_probabilities = false;
  bool dry_run = false;
  bool json = false;
};

// Words that are not options are settings (key=value) or prompts. A word without "=" after a name is a prompt.
bool is_setting(const std::string& word) {
  const std::size_t end = word.find('=');
  const auto in_name = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '.' || letter == '-';
  };
  return end != std::string::npos && end > 0 && std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(end), in_name);
}

std::vector<std::string> typed_prompts(const GenerateCommand& given) {
  std::vector<std::string> prompts;
  for (const std::string& word : given.configuration->settings)
    if (!is_setting(word)) prompts.push_back(word);
  return prompts;
}

// Prompts that were typed as words, along with options that make them meaningless.
std::optional<Error> contradiction_of_prompts(const GenerateCommand& given) {
  const std::vector<std::string> prompts = typed_prompts(given);
  if (prompts.empty()) return std::nullopt;
  std::error_code ignored;
  for (const std::string& prompt : prompts) {
    if (std::filesystem::is_regular_file(prompt, ignored))
      return bad_input(fmt::format("{} is a file, and a prompt itself is expected here", prompt),
                       fmt::format("-p {}", prompt));
    if (prompt.find_first_not_of(" \t\r\n") == std::string::npos)
      return bad_input("a prompt on the command line is empty", "write what the model is to continue");
  }
  for (const auto& [option, typed] : {std::pair{"-p", given.prompts.has_value()},
                                      {"--score", given.score},
                                      {"--interactive", given.interactive}})
    if (typed)
      return bad_input(fmt::format("a prompt is given (\"{}\"), and {}", prompts.front(), option),
                       fmt::format("leave one of the two out; a setting is written section.key=value"));
  return std::nullopt;
}

// Options that make each other meaningless.
std::optional<Error> contradiction(const GenerateCommand& given) {
  if (auto wrong = contradiction_of_prompts(given)) return wrong;
  if (given.interactive) {
    for (const auto& [option, typed] : {std::pair{"-p", given.prompts.has_value()},
                                        {"-o", given.output.has_value()},
                                        {"--score", given.score},
                                        {"--logprobs", given.log_probabilities},
                                        {"--resume", given.configuration->short_values.at("--resume").size() > 0},
                                        {"--json", given.json && !given.dry_run}})
      if (typed)
        return bad_input(fmt::format("{} has no meaning in a conversation", option),
                         fmt::format("leave {} or --interactive out", option));
    return std::nullopt;
  }
  if (given.system)
    return bad_input("--system is for --interactive",
                     R"(in a prompt file: {"messages": [{"role": "system", "content": "…"}, …]})");
  if (!given.prompts && typed_prompts(given).empty())
    return bad_input("no prompts are given", "\"a prompt\", -p FILE, -p - for standard input, or --interactive");
  if (given.json && !given.dry_run && given.output.value_or("-") == "-")
    return bad_input("--json writes the summary to standard output, where the answers go", "-o FILE");
  return std::nullopt;
}

Result<job::GenerateRequest> request_of(const GenerateCommand& given) {
  planning::GivenConfiguration configuration = *given.configuration;
  std::erase_if(configuration.settings, [](const std::string& word) { return !is_setting(word); });
  take_bare_resume(configuration);
  for (const job::GenerateSetting& setting : job::generate_settings()) {
    const auto typed = given.values.find(std::string(setting.option));
    if (typed == given.values.end() || typed->second.empty()) continue;
    auto text = job::setting_text(setting, typed->second);
    if (!text) return text.error();
    configuration.overrides.push_back({std::string(setting.key), std::move(*text), std::string(setting.option)});
  }
  auto resolved = planning::resolve_configuration(spec::Schema(), configuration);
  if (!resolved) return resolved.error();
  if (!given.score)
    if (auto added = job::add_generation_defaults(*resolved); !added) return added.error();
  job::GenerateRequest request;
  request.settings = std::move(*resolved);
  request.mode = given.score         ? job::GenerateMode::score
              : given.interactive ? job::GenerateMode::converse
                                  : job::GenerateMode::answer;
  request.log_probabilities = given.log_probabilities;
  request.prompts = given.prompts.value_or("-");
  request.texts = typed_prompts(given);
  request.output = given.output.value_or("-");
  request.purpose = given.dry_run ? host::Purpose::plan : host::Purpose::compute;
  const auto resume = request.settings.origins.find("experiment.resume");
  const bool typed = resume != request.settings.origins.end() && resume->second.kind == spec::Origin::Kind::command_line;
  // In a file or the environment it may be meant for a run of another kind, and says how where it fits.
  const bool fits = request.settings.spec.experiment.resume == "auto" && request.output != "-" && (request.prompts != "-" || !request.texts.empty());
  request.resume = typed || fits;
  return request;
}

// The same question for `muster plan`, from which remedies are made.
planning::PlanCommandLine plan_command(const job::GeneratePlan& plan) {
  using Given = planning::PlanCommandLine::Given;
  const wire::GenerateTask& task = plan.task();
  std::vector<Given> given{{"", {task.model.name}},
                           {"--implementation", {"muster"}},
                           {"--device", {plan.question.devices.empty() ? "cpu" : "cuda"}},
                           {"--dtype", {std::string(name(plan.plan.workload.weights))}},
                           {"--batch", {std::to_string(task.batch_size)}},
                           {"--seq-len", {std::to_string(task.sequence_length)}}};
  return {std::move(given), plan::Work::inference};
}

int show_plan(const job::GeneratePlan& plan, bool json) {
  const planning::PlanCommandLine command = plan_command(plan);
  if (json)
    show_json(planning::plan_json(plan.question, plan.plan, command) + "\n");
  else
    show(planning::plan_text(plan.question, plan.plan, command, output_has_colour()));
  return plan.plan.fits() ? 0 : exit_code(Error::Kind::refused);
}

int run_conversation(host::Host& host, const job::GeneratePlan& plan, const GenerateCommand& given) {
  job::ConversationRequest request;
  request.system = given.system;
  request.prompting = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  if (request.prompting) request.history = job::TypedHistory::usual();
  const auto code = job::converse(host, plan, request, note);
  if (!code) return report(code.error());
  if (*code != 0 && request.prompting) fmt::print("\n");
  return *code;
}

int run_prompts(host::Host& host, const job::GenerateRequest& request, const job::GeneratePlan& plan, bool json) {
  StatusLine line;
  job::GenerateListener listener;
  listener.note = [&](const std::string& text) {
    line.clear();
    note(text);
  };
  if (line.visible())
    listener.progress = [&](const job::GenerateProgress& progress) {
      line.show(job::progress_text(progress), progress.elapsed);
    };
  const auto summary = job::generate(host, request, plan, listener);
  line.clear();
  if (!summary) return report(summary.error());
  for (const std::string& text : summary->notes) note(text);
  if (json)
    show_json(job::summary_json(plan, *summary) + "\n");
  else
    note(job::summary_text(plan, *summary));
  if (summary->failure) return report(*summary->failure);
  return summary->exit_code;
}

int tell_complete(const job::GeneratePlan& plan, const GenerateCommand& given) {
  note(fmt::format("{} has the answers to all of {}: nothing is left to do", *given.output,
                   count_of(*plan.total, "prompt")));
  job::GenerateSummary summary;
  summary.earlier = *plan.total;
  if (given.json) show_json(job::summary_json(plan, summary) + "\n");
  return 0;
}

int run_generate(const GenerateCommand& given) {
  if (given.configuration->print) {
    const auto request = request_of(given);
    if (!request) return report(request.error());
    print_resolved(spec::Schema(), request->settings, given.json);
    return 0;
  }
  if (const auto wrong = contradiction(given)) return report(*wrong);
  const auto request = request_of(given);
  if (!request) return report(request.error());
  for (const std::string& text : request->settings.notes) note(text);
  host::Host host = open_host(*given.inventory);
  const auto plan = job::plan_generation(host, *request);
  if (!plan) return report(plan.error());
  if (given.dry_run) return show_plan(*plan, given.json);
  for (const std::string& text : plan->question.model->notes) note(text);
  for (const std::string& text : plan->notes) note(text);
  if (plan->complete()) return tell_complete(*plan, given);
  if (!plan->plan.fits()) return report(job::refusal_of(*plan));
  ::signal(SIGPIPE, SIG_IGN);  // a reader that is gone is reported as an error of writing
  return given.interactive ? run_conversation(host, *plan, given) : run_prompts(host, *request, *plan, given.json);
}

}  // namespace

void add_generate_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("generate", "answer prompts, score completions, or hold a conversation with a model");
  auto given = std::make_shared<GenerateCommand>();
  command->add_option("-p,--prompts", given->prompts,
                      "file with one prompt a line: text, or JSON with prompt or messages; - is standard input");
  command->add_option("-o", given->output,
                      "file for the answers, JSON lines in the order of the prompts; not set or -: standard output");
  command->add_flag("--score", given->score, "log-probabilities of the rows' completions instead of new answers");
  command->add_flag("--interactive", given->interactive, "hold a conversation; answers are shown as they come");
  command->add_option("--system", given->system, "with --interactive: what the model is told before anything else");
  command->add_flag("--logprobs", given->log_probabilities, "the log-probability of each token, too");
  const spec::Schema schema;
  for (const job::GenerateSetting& setting : job::generate_settings()) {
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
  command->get_option("--resume")
      ->expected(0, 1)
      ->description("continue the file of -o, which has the same settings and prompts");
  command->get_option("SETTINGS")->description(
      "prompts, each a word in quotes; and settings as section.key=value, as in generation.samples=4");
  command->callback([&action, given] { action.run = [given](const Tail&) { return run_generate(*given); }; });
}

}  // namespace muster::cli
