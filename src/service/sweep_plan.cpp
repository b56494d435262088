#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "job/train/train.hpp"
#include "job/train/train_job.hpp"
#include "planning/configuration.hpp"
#include "service/sweep.hpp"
#include "sweep/best_trials.hpp"
#include "sweep/search/suggest.hpp"
#include "sweep/sweep_document.hpp"
#include "system/files.hpp"

namespace muster::service {

namespace fs = std::filesystem;

namespace {

// The sweep of the built-in job: which settings let a small model learn to add in 300 steps.
constexpr std::string_view builtin_sweep = R"(metric: exact_match
goal: maximize
method: bayes
parameters:
  training.learning_rate: {distribution: log_normal, min: 1.0e-4, max: 2.0e-2, mean: 2.0e-3}
  training.batch_size: {distribution: uniform_pow2, min: 32, max: 256}
  training.warmup_steps: {distribution: int_uniform, min: 0, max: 100}
  training.weight_decay: {distribution: uniform, min: 0, max: 0.2}
  training.max_steps: 300
limits: {trials: 20}
)";

Error with_context(const Error& error, const std::string& context) {
  return {error.kind, context + ": " + error.what, error.remedy};
}

Result<std::string> name_of(const SweepRequest& request) {
  std::string name;
  if (request.name) {
    name = *request.name;
  } else if (request.file) {
    const fs::path file = fs::path(*request.file).lexically_normal();
    const bool in_its_folder = file.filename() == "sweep.yaml" && file.parent_path().parent_path() == request.output;
    name = in_its_folder ? file.parent_path().filename().string() : file.stem().string();
  } else {
    return Error{Error::Kind::bad_input, "no sweep is named", "muster sweep SPEC.yaml, or muster sweep run=NAME"};
  }
  if (auto checked = sweep::check_sweep_name(name); !checked) return checked.error();
  return name;
}

// The request, before it is compared with what exists.
struct Source {
  std::string text, name;
};

Result<Source> source_of(const SweepRequest& request, const sweep::SweepFolder& folder) {
  Source source{std::string(builtin_sweep), "the built-in sweep"};
  const fs::path file = request.file ? fs::path(*request.file) : folder.spec();
  if (!request.file && !folder.exists()) return source;
  auto text = read_file(file);
  if (!text) return Error{Error::Kind::bad_input, text.error().what, "name a sweep file: docs/sweep.md"};
  return Source{std::move(*text), file.string()};
}

// What muster train measures is known beforehand; what an evaluation prints is not.
Result<void> check_own_metric(const sweep::SweepSpec& spec) {
  std::vector<std::string> known{"final_loss"};
  wire::TrainTask task;
  task.reward.emplace();
  for (const auto& [word, function] : spec::words(spec::RewardFunction())) task.reward->functions.push_back(function);
  const auto add = [&](const std::vector<std::string>& columns) {
    for (const std::string& column : columns)
      if (std::ranges::find(known, column) == known.end()) known.push_back(column);
  };
  for (const auto& [word, algorithm] : spec::words(spec::Algorithm())) {
    task.algorithm = algorithm;
    add(job::train_columns(task));
  }
  task.algorithm = spec::Algorithm::grpo;
  for (const auto& [word, kind] : spec::words(spec::EnvironmentKind())) {
    task.environment.emplace().kind = kind;
    add(job::train_columns(task));
  }
  task = {};
  task.combined.emplace();
  add(job::train_columns(task));
  if (!spec.evaluate.empty() || std::ranges::find(known, spec.metric) != known.end()) return {};
  const auto meant = nearest(spec.metric, known);
  return Error{
      Error::Kind::bad_input, fmt::format("metric is \"{}\", which muster train does not measure", spec.metric),
      fmt::format("{}it measures {}", meant ? fmt::format("did you mean {}? ", *meant) : "", join(known, ", "))};
}

// Passes settings of the first trial through all checks of muster train: no trial could do better.
Result<void> check_own_training(const sweep::SweepSpec& spec) {
  const auto first = sweep::suggest(spec, {});
  if (!first) return {};
  planning::GivenConfiguration given;
  given.settings = sweep::override_list(first->settings);
  given.command = spec::Command::train;
  auto resolved = planning::resolve_configuration(spec::Schema(), given);
  if (!resolved) return with_context(resolved.error(), "the first trial");
  auto settled = job::settle_training_settings(std::move(*resolved));
  if (!settled) return with_context(settled.error(), "the first trial");
  return {};
}

}  // namespace

Result<void> check_same_sweep(const SweepPlan& plan) {
  const sweep::SweepFolder& folder = plan.folder;
  const auto had = read_file(folder.spec());
  if (!had) return had.error();
  const auto lines = sweep::differences(*had, plan.text);
  if (!lines) return lines.error();
  if (!lines->empty())
    return Error{
        Error::Kind::refused,
        fmt::format("{} is there already, and is another sweep:\n  {}", folder.path().string(), join(*lines, "\n  ")),
        fmt::format("muster sweep run={} goes on with it as it is; --name OTHER begins another", folder.name())};
  return {};
}

Result<SweepPlan> plan_sweep(const SweepRequest& request) {
  const auto name = name_of(request);
  if (!name) return name.error();
  SweepPlan plan{sweep::SweepFolder(request.output, *name), {}, {}, {}, false, true, {}};
  auto source = source_of(request, plan.folder);
  if (!source) return source.error();
  auto text = sweep::with_words(source->text, source->name, request.words);
  if (!text) return text.error();
  plan.text = std::move(*text);
  auto spec = sweep::read_sweep_spec(plan.text, source->name);
  if (!spec) return spec.error();
  plan.spec = std::move(*spec);
  plan.goes_on = plan.folder.exists();
  if (plan.goes_on) {
    if (auto same = check_same_sweep(plan); !same) return same.error();
    const auto had = read_file(plan.folder.spec());
    plan.changed = !had || *had != plan.text;
    if (plan.changed) plan.notes.push_back("sweep.yaml changes: its limits, or its words alone");
  }
  if (plan.spec.command.empty())
    if (auto checked = check_own_metric(plan.spec); !checked) return checked.error();
  if (plan.spec.command.empty())
    if (auto checked = check_own_training(plan.spec); !checked) return checked.error();
  auto finished = sweep::read_observations_file(plan.folder);
  if (!finished) return finished.error();
  plan.finished = std::move(*finished);
  if (source->name == "the built-in sweep")
    plan.notes.push_back("no sweep file: the built-in sweep of the built-in arithmetic job");
  return plan;
}

}  // namespace muster::service
