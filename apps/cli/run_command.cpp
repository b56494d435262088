// muster run: a whole matrix of jobs, from one file.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/count_of.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "cli/called_as.hpp"
#include "cli/command.hpp"
#include "cli/status_line.hpp"
#include "cli/terminal.hpp"
#include "experiment/experiment_file.hpp"
#include "experiment/named_paths.hpp"
#include "host/described_gpus.hpp"
#include "schedule/schedule_svg.hpp"
#include "schedule/schedule_text.hpp"
#include "service/experiment.hpp"
#include "system/files.hpp"

namespace muster::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct RunOptions {
  std::vector<std::string> words;  // a file, and key=value
  std::string svg;
  std::string job, stage;  // their names in the queue
  bool dry_run = false, resume = false, detach = false, json = false;
  std::shared_ptr<InventoryOption> inventory;
};

volatile sig_atomic_t interrupted = 0;

Result<experiment::ExperimentSpec> read_spec(const RunOptions& options) {
  std::optional<std::string> file;
  std::vector<std::string> overrides;
  for (const std::string& word : options.words) {
    if (word.find('=') != std::string::npos) {
      overrides.push_back(word);
    } else if (file) {
      return Error{Error::Kind::bad_input, fmt::format("{} and {} are two files", *file, word), "name one"};
    } else {
      file = word;
    }
  }
  if (!file && overrides.empty())
    return Error{Error::Kind::bad_input, "no experiment is named",
                 "muster run EXPERIMENT.yaml, or muster run experiment.name=NAME for the built-in one"};
  if (!file) return experiment::read_experiment(experiment::builtin_experiment(), "the built-in experiment", overrides);
  const auto text = read_file(*file);
  if (!text) return Error{Error::Kind::bad_input, text.error().what, "muster run EXPERIMENT.yaml"};
  return experiment::read_experiment(*text, *file, overrides);
}

int show_schedule(const RunOptions& options, const service::ExperimentPlan& plan) {
  const schedule::Simulation simulation = service::simulate(plan);
  if (const std::size_t done = plan.stages_done(); done > 0)
    note(fmt::format("{} of {} stages are done, and left out", done, plan.stages()));
  if (std::ranges::any_of(simulation.scheduler().jobs().all(),
                          [](const schedule::JobRecord& record) { return !record.job.prediction; }))
    note("stages that say nothing about their time (predicted: 30m) are drawn as 10 minutes");
  if (!options.svg.empty()) {
    const std::string picture = schedule::schedule_svg(plan.spec->name, simulation.scheduler(), simulation.runs());
    if (auto written = write_file_atomically(options.svg, picture); !written) return report(written.error());
  }
  if (options.json)
    show_json(service::schedule_json(simulation));
  else
    show(schedule::schedule_text(simulation.scheduler(), simulation.runs()));
  return 0;
}

// On a terminal one line that is overwritten; into a pipe a line for each stage that ends.
class Follower {
 public:
  explicit Follower(std::size_t stages) : stages_(stages) {}

  service::ExperimentListener listener() {
    service::ExperimentListener listener;
    listener.settled = [this](const std::string& stage, const schedule::JobRecord& record, const std::string& reason) {
      line_.clear();
      std::string text = fmt::format("{} {}", stage, name(record.state));
      if (!reason.empty()) text += fmt::format(": {}", reason);
      if (record.state == schedule::JobState::failed) text += fmt::format(" ({} logs {})", shell_word(called_as()), record.job.id.text);
      settled_.push_back(std::move(text));
    };
    listener.look = [this](const service::ExperimentCounts& counts) { show(counts); };
    listener.interrupted = [] { return interrupted != 0; };
    listener.stopping = [this] {
      line_.clear();
      note("stopping the jobs …");
    };
    return listener;
  }

  // What was settled since the last look.
  void flush() {
    for (const std::string& text : settled_) note(text);
    settled_.clear();
  }

 private:
  void show(const service::ExperimentCounts& counts) {
    std::string text = fmt::format("{} of {} stages done, {} running, {} waiting", counts.done, stages_, counts.running,
                                   counts.waiting);
    if (counts.failed > 0) text += fmt::format(", {} failed", counts.failed);
    if (counts.skipped > 0) text += fmt::format(", {} skipped", counts.skipped);
    if (!settled_.empty() && !line_.visible()) settled_.back() += fmt::format("; {}", text);
    flush();
    if (!counts.at_work.empty()) text += fmt::format(": {}", join(counts.at_work, ", "));
    if (line_.visible()) line_.show(text, elapsed());
  }
  std::chrono::milliseconds elapsed() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun_);
  }

  std::size_t stages_;
  StatusLine line_;
  std::vector<std::string> settled_;
  Clock::time_point begun_ = Clock::now();
};

std::string outcome_json(const service::ExperimentPlan& plan, const std::vector<experiment::JobOutcome>& outcomes) {
  nlohmann::ordered_json out{
      {"experiment", plan.spec->name}, {"folder", plan.folder.string()}, {"jobs", nlohmann::ordered_json::array()}};
  for (const experiment::JobOutcome& outcome : outcomes)
    out["jobs"].push_back({{"job", outcome.job->id.text},
                           {"status", name(outcome.progress.status)},
                           {"reason", outcome.progress.reason},
                           {"sha256", outcome.sha256},
                           {"result", outcome.numbers}});
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// The table, or the JSON, of the current state; what only the queue knows is shown along with what the files say.
Result<bool> show_outcome(const RunOptions& options, const service::ExperimentPlan& plan,
                          const service::ExperimentEnd& end) {
  auto outcomes = service::gather_results(plan);
  if (!outcomes) return outcomes.error();
  bool complete = true;
  for (experiment::JobOutcome& outcome : *outcomes) {
    complete = complete && outcome.progress.done == outcome.job->stages.size();
    const auto reason = end.reasons.find(outcome.job->id.text);
    if (reason == end.reasons.end() || !outcome.progress.reason.empty()) continue;
    outcome.progress.reason = reason->second;
  }
  if (options.json)
    show_json(outcome_json(plan, *outcomes));
  else
    show(experiment::outcome_table(*outcomes, output_has_colour()));
  return complete;
}

std::string resume_command(const RunOptions& options) {
  std::string command = shell_word(called_as()) + " run";
  for (const std::string& word : options.words) command += " " + shell_word(word);
  if (options.inventory->file) command += " --gpus-from " + shell_word(*options.inventory->file);
  return command + " --resume";
}

void listen_for_interrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int number) { interrupted = number; };
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction before = {};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(number, &action, nullptr);  // a shell's background job ignores SIGINT
  }
}

Result<service::ExperimentEnd> follow(service::Queue& queue, const service::ExperimentPlan& plan,
                                      const service::StageJobs& stages) {
  Follower follower(plan.stages());
  auto end = service::follow_experiment(queue, plan, stages, follower.listener());
  follower.flush();
  return end;
}

int conclude(const RunOptions& options, const service::ExperimentPlan& plan, const service::ExperimentEnd& end) {
  const auto complete = show_outcome(options, plan, end);
  if (!complete) return report(complete.error());
  if (!*complete) note(fmt::format("{} resumes it", resume_command(options)));
  constexpr int signal_base = 128;
  if (end.interrupted) return signal_base + interrupted;
  return *complete ? 0 : 1;
}

// Until all is done, or nothing more can be. Jobs taken over from an earlier call that came to nothing, because
// they had been killed with it, are submitted again.
int submit_and_follow(const RunOptions& options, const host::HostSources& sources, service::ExperimentPlan plan) {
  auto queue = service::Queue::open(sources);
  if (!queue) return report(queue.error());
  listen_for_interrupts();
  while (true) {
    const auto submission = service::submit_experiment(*queue, plan);
    if (!submission) return report(submission.error());
    note(fmt::format("{}: {}, {} of {} to do, on {}; everything goes to {}", plan.spec->name,
                     count_of(plan.jobs.size(), "job"), submission->stages.size(), count_of(plan.stages(), "stage"),
                     count_of(plan.gpus.size(), "GPU"), plan.folder.string()));
    if (options.detach) {
      note(fmt::format("{} queue shows the jobs; {} follows them", shell_word(called_as()), resume_command(options)));
      return 0;
    }
    const auto end = follow(*queue, plan, submission->stages);
    if (!end) return report(end.error());
    if (end->interrupted || submission->taken_over == 0 || end->reasons.empty()) return conclude(options, plan, *end);
    auto again = service::plan_experiment(sources, experiment::ExperimentSpec(*plan.spec));
    if (!again) return report(again.error());
    plan = std::move(*again);
  }
}

int run_experiment(const RunOptions& options) {
  auto spec = read_spec(options);
  if (!spec) return report(spec.error());
  host::HostSources sources = host::sources_from_environment();
  if (options.inventory->file) sources.inventory_file = *options.inventory->file;
  auto plan = service::plan_experiment(sources, std::move(*spec));
  if (!plan) return report(plan.error());
  if (const auto missing = experiment::missing_paths(*plan->spec); !missing.empty() && !plan->complete())
    return report(to_error(missing));
  if (!plan->complete())
    for (const std::string& text : plan->notes) note(text);
  if (options.dry_run) return show_schedule(options, *plan);
  if (plan->exists && plan->complete()) {
    note(fmt::format("{} is done: there is nothing to do", plan->folder.string()));
    const auto shown = show_outcome(options, *plan, {});
    return shown ? 0 : report(shown.error());
  }
  if (plan->exists && !options.resume)
    return report({Error::Kind::refused,
                   fmt::format("{} is there, with {} of {} stages done", plan->folder.string(), plan->stages_done(),
                               plan->stages()),
                   resume_command(options) + ", or another experiment.name"});
  if (plan->described_gpus)
    note(host::described_gpus_words(*plan->described_gpus) +
         ": they say which jobs run side by side, and muster's own stages compute on the CPU");
  if (plan->gpus.empty()) note("no GPU: muster's own stages compute on the CPU, two jobs at a time");
  return submit_and_follow(options, sources, std::move(*plan));
}

int run_one_stage(const RunOptions& options) {
  const bool is_whole = options.words.size() == 1 && !options.job.empty() && !options.stage.empty();
  const auto status =
      is_whole
          ? service::run_stage(options.words.front(), options.job, options.stage)
          : Result<int>(Error{Error::Kind::bad_input, "--job and --stage go together, with the folder of an experiment",
                              "muster run EXPERIMENT.yaml runs all of it"});
  return status ? *status : report(status.error());
}

}  // namespace

void add_run_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand(
      "run", "run an experiment: algorithms × model families × data sets × rounds, as jobs over all GPUs");
  auto options = std::make_shared<RunOptions>();
  command->add_option("EXPERIMENT", options->words,
                      "experiment file (docs/experiments.md; none: a small built-in one), and key=value settings");
  command->add_flag("--dry-run", options->dry_run, "show what would run when, on which GPUs; write nothing");
  command->add_option("--svg", options->svg, "with --dry-run: file for the picture of it");
  command->add_flag("--resume", options->resume, "resume an experiment: only what is left runs");
  command->add_flag("--detach", options->detach, "queue the jobs and return; they keep running");
  command->add_flag("--json", options->json, "the outcome, or with --dry-run the schedule, for programs");
  command->add_option("--job", options->job)->group("");
  command->add_option("--stage", options->stage)->group("");
  options->inventory = add_inventory_option(*command);
  command->callback([&action, options] {
    action.run = [options](const Tail&) {
      if (!options->job.empty() || !options->stage.empty()) return run_one_stage(*options);
      if (!options->svg.empty() && !options->dry_run)
        return report({Error::Kind::bad_input, "--svg is for --dry-run",
                       "add --dry-run; a run draws schedule.svg in its folder"});
      return run_experiment(*options);
    };
  });
}

}  // namespace muster::cli
