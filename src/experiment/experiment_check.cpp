// Checks of an experiment before anything runs.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "experiment/settings.hpp"
#include "experiment/variables.hpp"
#include "spec/alias.hpp"
#include "spec/resolve.hpp"

namespace muster::experiment {
namespace {

constexpr std::size_t longest_id = 100;

class Check {
 public:
  Check(const ExperimentSpec& spec, const spec::Schema& schema) : spec_(spec), schema_(schema) {}

  std::vector<Problem> run() {
    if (spec_.wanted_stages().empty())
      note("", "no stage is wanted: generate, train and evaluate are none", "leave one of them in");
    for (const StageKind kind : spec_.wanted_stages()) {
      uses_[kind] = {};
      for (const std::string& word : spec_.stage(kind).command) look_at_variables(spec_.stage(kind).where, word, kind);
    }
    for (const Choice& algorithm : spec_.algorithms)
      for (const Choice& family : spec_.families)
        for (const DataSet& dataset : spec_.datasets) look_at_cell({{}, &algorithm, &family, &dataset, 1, {}});
    look_at_outputs();
    look_at_readers();
    return std::move(problems_);
  }

 private:
  void note(const std::string& where, std::string what, std::string remedy) {
    Problem problem{where, std::move(what), std::move(remedy)};
    if (std::ranges::find(problems_, problem) == problems_.end()) problems_.push_back(std::move(problem));
  }

  void look_at_variables(const std::string& where, const std::string& text, StageKind kind) {
    const auto found = variables_in(text);
    if (!found) return note(where, found.error().what, found.error().remedy);
    uses_[kind].insert(found->begin(), found->end());
  }

  void look_at_cell(const ExperimentJob& job) {
    const std::string id =
        fmt::format("{}_{}_{}_r{}", job.algorithm->name, job.family->name, job.dataset->name, spec_.rounds);
    if (id.size() > longest_id)
      note(job.algorithm->where, fmt::format("{} is longer than {} letters", id, longest_id), "use shorter names");
    for (const StageKind kind : spec_.wanted_stages()) {
      if (!spec_.stage(kind).is_own()) continue;
      uses_[kind].insert("model");
      const Settings settings = settings_for(spec_, job, kind);
      for (const auto* file : {&job.dataset->prompts, &job.dataset->questions})
        if (*file) look_at_variables(job.dataset->where, **file, kind);
      look_at_needs(job, kind, settings);
      look_at_settings(kind, settings);
    }
  }

  void look_at_needs(const ExperimentJob& job, StageKind kind, const Settings& settings) {
    const bool begins_with_family = kind != StageKind::evaluate || !spec_.stage(StageKind::train).wanted;
    if (begins_with_family && find(settings, "model.path") == nullptr)
      note(job.family->where, fmt::format("family {} names no model", job.family->name),
           "write its path, or model.path in its table");
    if (kind == StageKind::generate && !job.dataset->prompts)
      note(job.dataset->where,
           fmt::format("data set {} has no prompts, and data is to be generated", job.dataset->name),
           "write prompts: FILE in its table, or generate: none");
    if (kind == StageKind::train && find(settings, "data.path") == nullptr)
      note(job.dataset->where, fmt::format("data set {} names no data", job.dataset->name),
           "write its path, or data.path in its table");
    if (kind == StageKind::train && find(settings, "training.algorithm") == nullptr)
      note(job.algorithm->where, fmt::format("{} is not an algorithm that muster train knows", job.algorithm->name),
           "write training.algorithm in its table: muster config lists what there is");
    if (const Setting* left = find(settings, "training.save_at_end");
        kind == StageKind::train && left != nullptr && left->value == "nothing")
      note(left->where, "training.save_at_end is nothing, and the stages of an experiment hand on models",
           "leave it out, or write model");
    if (kind == StageKind::evaluate && find(settings, "data.path") == nullptr &&
        find(settings, "data.eval_path") == nullptr && !job.dataset->questions)
      note(job.dataset->where, fmt::format("data set {} has nothing to evaluate on", job.dataset->name),
           "write data.path, data.eval_path or questions in its table");
  }

  // As muster's own command would look at them.
  void look_at_settings(StageKind kind, const Settings& settings) {
    static const Variables samples = [] {
      Variables values;
      for (const std::string& name : variable_names()) values.emplace(name, "1");
      return values;
    }();
    spec::Sources sources;
    for (const Setting& setting : settings) {
      look_at_variables(setting.where, setting.value, kind);
      const auto value = replace_variables(setting.value, samples);
      if (value) sources.overrides.push_back({setting.key, *value, setting.where});
    }
    const auto resolved = spec::resolve(schema_, sources);
    if (!resolved) {
      for (const std::string& line : split(resolved.error().what, '\n')) note("", line, "");
      return;
    }
    for (const Problem& problem : spec::missing_capabilities(schema_, *resolved))
      note(problem.where, problem.what, problem.remedy);
  }

  // If a later stage or round needs an output whose place a command does not name, it would silently begin elsewhere.
  void look_at_outputs() {
    const auto is_silent = [&](StageKind kind) {
      const Stage& stage = spec_.stage(kind);
      return stage.wanted && !stage.command.empty() && !uses_[kind].contains("output");
    };
    const auto need = [&](StageKind writer, StageKind reader, const char* what, const char* variable, int rounds) {
      if (!is_silent(writer) || !uses_.contains(reader) || !uses_[reader].contains(variable) || spec_.rounds < rounds)
        return;
      note(spec_.stage(writer).where,
           fmt::format("{} uses ${{{}}}, {}, and the command of {} has no ${{output}}", name(reader), variable, what,
                       name(writer)),
           "give it the word ${output}: where it is to write");
    };
    need(StageKind::train, StageKind::evaluate, "the trained model", "model", 1);
    for (const StageKind reader : {StageKind::generate, StageKind::train})
      need(StageKind::train, reader, "from round 2 on the model of the round before", "model", 2);
    for (const StageKind reader : {StageKind::train, StageKind::evaluate})
      need(StageKind::generate, reader, "what generation wrote", "data", 1);
  }

  // A setting that no stage reads would be silently ignored. One of a disabled stage is ignored with it; a
  // user's own command does not get any.
  void look_at_readers() {
    std::vector<StageKind> readers;
    for (const StageKind kind : all_stages)
      if (spec_.stage(kind).command.empty()) readers.push_back(kind);
    need_readers(spec_.settings, readers);
    for (const Choice& family : spec_.families) need_readers(family.settings, readers);
    for (const DataSet& dataset : spec_.datasets) need_readers(dataset.settings, readers);
    for (const StageKind kind : readers) need_readers(spec_.stage(kind).settings, {kind});
    std::erase_if(readers, [](StageKind kind) { return kind != StageKind::train; });
    for (const Choice& algorithm : spec_.algorithms) need_readers(algorithm.settings, readers);
  }

  void need_readers(const Settings& settings, const std::vector<StageKind>& stages) {
    for (const Setting& setting : settings) {
      const std::string_view key = spec::canonical_key(setting.key);
      // These two are also ${model} and ${data} of a stage's own command.
      if (schema_.find(key) == nullptr || key == "model.path" || key == "data.path") continue;
      if (std::ranges::none_of(stages, [&](StageKind kind) { return spec::reads(command_of(kind), key); }))
        note(setting.where, fmt::format("{} is read by none of the stages that it is given to", setting.key),
             fmt::format("leave it out; it is read by {}", spec::readers_in_words(key)));
    }
  }

  const ExperimentSpec& spec_;
  const spec::Schema& schema_;
  std::map<StageKind, std::set<std::string>> uses_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> problems_of(const ExperimentSpec& spec, const spec::Schema& schema) {
  return Check(spec, schema).run();
}

}  // namespace muster::experiment
