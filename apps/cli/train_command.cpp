// muster train: a model learns.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>

#include "base/clean_text.hpp"
#include "base/count_of.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "cli/called_as.hpp"
#include "cli/command.hpp"
#include "cli/configuration_options.hpp"
#include "cli/preparation_line.hpp"
#include "cli/status_line.hpp"
#include "cli/terminal.hpp"
#include "job/train/halfway_model.hpp"
#include "job/train/prompt_to_try.hpp"
#include "job/train/train.hpp"
#include "store/metrics_table.hpp"
#include "store/terminal_plot.hpp"

namespace muster::cli {
namespace {

struct TrainCommand {
  std::shared_ptr<ConfigurationOptions> configuration;
  std::shared_ptr<InventoryOption> inventory;
  bool dry_run = false;
  bool json = false;
};

int show_plan(const job::TrainPlan& plan, bool json) {
  if (json)
    show_json(job::train_plan_json(plan) + "\n");
  else
    show(job::train_plan_text(plan, output_has_colour()));
  if (plan.plan.fits() && !plan.fits()) return report(job::refusal_of(plan));
  return plan.fits() ? 0 : exit_code(Error::Kind::refused);
}

std::string evaluation_text(const wire::Evaluated& evaluated) {
  std::vector<std::string> words;
  if (evaluated.loss) words.push_back(fmt::format("loss {:.4f} on held-out data", *evaluated.loss));
  if (evaluated.questions.value_or(0) > 0)
    words.push_back(
        fmt::format("{} of {} held-out questions right ({:.1f} %)", *evaluated.correct, *evaluated.questions,
                    100.0 * static_cast<double>(*evaluated.correct) / static_cast<double>(*evaluated.questions)));
  if (evaluated.metrics)
    for (const auto& [name, value] : *evaluated.metrics) {
      if (name.ends_with("/reward")) words.push_back(fmt::format("{} earns {:.3f}", name.substr(5, name.find('/') - 5), value));
      if (name.ends_with("/success")) words.push_back(fmt::format("{:.1f} % of it solved", 100 * value));
    }
  std::string text = fmt::format("after step {}: {}", evaluated.step, join(words, ", "));
  for (const wire::AnsweredQuestion& sample : evaluated.samples)
    text += fmt::format("\n  {} → {}{}", sample.prompt, sample.answer,
                        sample.answer == sample.expected ? "" : fmt::format(" (right: {})", sample.expected));
  return text;
}

// Steps are overwritten on a terminal; a file or pipe gets as many lines as training.logging_steps asks for.
class TrainScreen {
 public:
  TrainScreen(StatusLine& line, std::int64_t every) : line_(line), every_(every) {}

  job::TrainListener listener() {
    job::TrainListener listener;
    listener.note = [this](const std::string& text) {
      line_.clear();
      note(text);
    };
    listener.progress = [this](const job::TrainProgress& progress) { show(progress); };
    listener.work = [this](const job::JobProgress& work) {
      line_.show(job::progress_line(work), work.elapsed);
    };
    listener.evaluated = [this](const wire::Evaluated& evaluated) {
      line_.clear();
      note(evaluation_text(evaluated));
    };
    listener.report = [this](const std::string& text) {
      line_.clear();
      tell_user(printable_lines(text) + "\n");
    };
    return listener;
  }

 private:
  void show(const job::TrainProgress& progress) {
    const std::string text = job::step_line(progress);
    if (progress.step == 1 || progress.step % every_ == 0 || progress.step == progress.steps) {
      line_.clear();
      tell_user(printable_lines(text) + "\n");
    } else if (line_.visible()) {
      line_.show(text, std::chrono::hours(1));
    }
  }

  StatusLine& line_;
  std::int64_t every_;
};

void print_plot(const std::filesystem::path& folder) {
  const auto metrics = store::read_metrics(folder / "metrics.csv");
  if (!metrics) return;
  tell_user(store::text_plot(store::curve_of(*metrics, "loss"),
                             {output_width(), 12, output_is_unicode(), output_has_colour()}));
}

std::string summary_json(const job::TrainSummary& summary) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(store::result_json(summary.result), nullptr, false);
  json["folder"] = summary.folder->string();
  return json.dump();
}

// How the model is used. A command that tries it has a question that it was evaluated on, else one like those it learnt from.
std::string try_line(const job::TrainPlan& plan, const job::TrainSummary& summary, const std::string& data,
                     const std::filesystem::path& model) {
  if (plan.task().reward_model)
    return fmt::format("it judges sampled answers: training.algorithm=grpo reward.functions=[model] reward.model={}",
                       shell_word(model.string()));
  const bool has_question = summary.evaluated && !summary.evaluated->samples.empty();
  const std::string prompt =
      has_question ? summary.evaluated->samples.front().prompt : job::prompt_to_try(data);
  return fmt::format("try it: {} | {} generate -m {} -p - --temperature 0 --max-new-tokens {}{}",
                     job::piped(prompt), shell_word(called_as()), shell_word(model.string()),
                     has_question ? 8 : 32, plan.job.selection ? "" : " --device cpu");
}

int finish(const job::TrainPlan& plan, const job::TrainSummary& summary, const std::string& data, bool json) {
  if (!summary.folder) {
    note("the ranks of this host have ended; host 0 has the run");
    return summary.exit_code;
  }
  print_plot(*summary.folder);
  const std::filesystem::path folder = std::filesystem::proximate(*summary.folder);
  const store::RunResult& result = summary.result;
  if (result.status == store::Ending::interrupted) {
    note(fmt::format("interrupted after step {}; the same command with --resume {} continues {}", result.steps,
                     folder.string(),
                     summary.saved ? fmt::format("after step {}", *summary.saved) : "from the beginning"));
  } else {
    note(fmt::format("{} in {:.0f} s; loss {:.4f}; everything is in {}", count_of(result.steps, "step"), result.seconds,
                     result.final_loss.value_or(0), folder.string()));
    if (plan.task().save_at_end != spec::FinalSave::nothing)
      note(try_line(plan, summary, data, folder / "model"));
  }
  if (json) show_json(summary_json(summary) + "\n");
  return summary.exit_code;
}

// A run that has done everything it was asked to.
int tell_finished(const job::TrainPlan& plan, bool json) {
  note(fmt::format("{} has done all its {}: there is nothing to do; a larger training.max_steps continues it",
                   std::filesystem::proximate(*plan.resumes).string(), count_of(plan.task().steps, "step")));
  if (!json) return 0;
  const auto folder = store::RunFolder::open(*plan.resumes);
  if (!folder) return report(folder.error());
  const auto result = folder->read_result();
  if (!result) return report(result.error());
  job::TrainSummary summary;
  summary.folder = folder->path();
  if (*result) summary.result = **result;
  show_json(summary_json(summary) + "\n");
  return 0;
}

// "1234 samples", "617 pairs"
std::string sample_words(const job::TrainPlan& plan) {
  const spec::Algorithm algorithm = plan.task().algorithm;
  const std::int64_t count = plan.data.training.counts.samples / spec::samples_together(algorithm);
  if (spec::learns_from_pairs(algorithm)) return count_of(count, "pair");
  if (spec::samples_answers(algorithm))
    return fmt::format("{}, {} a round", count_of(count, "prompt"), count_of(plan.task().policy->answers, "answer"));
  return count_of(count, algorithm == spec::Algorithm::kto ? "answer" : "sample");
}

int run_train(const TrainCommand& given) {
  planning::GivenConfiguration configuration = *given.configuration;
  take_bare_resume(configuration);
  auto resolved = planning::resolve_configuration(spec::Schema(), configuration);
  if (!resolved) return report(resolved.error());
  for (const std::string& text : resolved->notes) note(text);
  const std::size_t told = resolved->notes.size();
  auto settled = job::settle_training_settings(std::move(*resolved));
  if (!settled) return report(settled.error());
  for (std::size_t i = told; i < settled->notes.size(); ++i) note(settled->notes[i]);
  if (given.configuration->print) {
    print_resolved(spec::Schema(), *settled, given.json);
    return 0;
  }
  job::TrainRequest request{std::move(*settled), given.dry_run ? host::Purpose::plan : host::Purpose::compute};
  host::Host host = open_host(*given.inventory);
  StatusLine line;
  ::signal(SIGPIPE, SIG_IGN);
  TrainScreen screen(line, line.visible() ? std::numeric_limits<std::int64_t>::max()
                                          : std::max<std::int64_t>(request.settings.spec.training.logging_steps, 1));
  const auto made = job::make_halfway_model(host, request.settings.spec, data::cache_folder_from_environment(),
                                            screen.listener());
  if (!made) return report(made.error());
  const auto plan = job::plan_training(host, request, show_preparation(line));
  line.clear();
  if (!plan) return report(plan.error());
  for (const std::string& text : plan->question.model->notes) note(text);
  for (const std::string& text : plan->notes) note(text);
  if (given.dry_run) return show_plan(*plan, given.json);
  if (plan->finished) return tell_finished(*plan, given.json);
  if (!plan->fits()) return report(job::refusal_of(*plan));
  const wire::TrainTask& task = plan->task();
  const std::int64_t ranks = plan->job.ranks * (plan->job.hosts ? plan->job.hosts->count : 1);
  const std::int64_t of_pass = ranks * task.micro_batch;
  note(fmt::format("{} parameters on {}, {}; {}; {} of {} ({} × {} × {})",
                   plan->plan.parameters, plan->device, strategy_words(plan->plan.layout),
                   sample_words(*plan), count_of(task.steps, "step"),
                   count_of(task.batch_size, plan::unit_word(plan->plan.workload)), task.micro_batch,
                   count_of((task.batch_size + of_pass - 1) / of_pass, "pass", "passes"), count_of(ranks, "rank")));
  const auto summary = job::train(host, request, *plan, screen.listener());
  line.clear();
  if (!summary) return report(summary.error());
  if (summary->was_complete) return tell_finished(*plan, given.json);
  return finish(*plan, *summary, *request.settings.spec.data.path, given.json);
}

}  // namespace

void add_train_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand(
      "train", "train a model; without a model and data: a small one learns to add, in about two minutes");
  auto given = std::make_shared<TrainCommand>();
  command->add_flag("--dry-run", given->dry_run, "show the plan, and start nothing");
  command->add_flag("--json", given->json, "the result for programs; with --dry-run, the plan");
  given->inventory = add_inventory_option(*command);
  given->configuration = add_configuration_options(*command, Training::yes);
  command->get_option("--resume")
      ->expected(0, 1)
      ->description("resume the newest run with these settings (auto), or the run or checkpoint in PATH");
  command->callback([&action, given] { action.run = [given](const Tail&) { return run_train(*given); }; });
}

}  // namespace muster::cli
