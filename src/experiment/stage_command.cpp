#include "experiment/stage_command.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiment/settings.hpp"
#include "experiment/variables.hpp"

namespace muster::experiment {
namespace {

class Composition {
 public:
  Composition(const ExperimentSpec& spec, const ExperimentJob& job, StageKind kind, const JobFolder& folder,
              const StageFacts& facts)
      : spec_(spec), job_(job), kind_(kind), folder_(folder), facts_(facts) {}

  Result<std::vector<std::string>> words() const {
    const Variables values = variables();
    std::vector<std::string> words = spec_.stage(kind_).command.empty() ? own_words() : spec_.stage(kind_).command;
    for (std::string& word : words) {
      auto replaced = replace_variables(word, values);
      if (!replaced) return replaced.error();
      word = std::move(*replaced);
    }
    return words;
  }

 private:
  Variables variables() const {
    Variables values{{"algorithm", job_.algorithm->name},
                     {"family", job_.family->name},
                     {"dataset", job_.dataset->name},
                     {"round", std::to_string(job_.round)},
                     {"seed", std::to_string(spec_.seed)},
                     {"job", job_.id.text},
                     {"folder", folder_.path().string()},
                     {"model", facts_.model},
                     {"output", folder_.output(kind_).string()},
                     {"gpus", std::to_string(facts_.gpus)}};
    const Setting* path = find(job_.dataset->settings, "data.path");
    values["data"] = spec_.stage(StageKind::generate).wanted ? folder_.data().string()
                     : path != nullptr                       ? path->value
                                                             : std::string();
    return values;
  }

  std::vector<std::string> own_words() const {
    std::vector<std::string> words{facts_.program, std::string(name(kind_))};
    if (kind_ == StageKind::generate)
      words.insert(words.end(), {"-p", job_.dataset->prompts.value_or(""), "-o", folder_.answers().string()});
    if (kind_ == StageKind::evaluate) {
      words.insert(words.end(), {"-o", folder_.result().string()});
      if (job_.dataset->exact_match) words.push_back("--exact-match");
      if (job_.dataset->questions) words.insert(words.end(), {"--questions", *job_.dataset->questions});
    }
    for (const Setting& setting : own_settings()) words.push_back(fmt::format("{}={}", setting.key, setting.value));
    return words;
  }

  Settings own_settings() const {
    Settings settings = settings_for(spec_, job_, kind_);
    const auto set = [&](const std::string& key, std::string value) {
      std::erase_if(settings, [&](const Setting& setting) { return setting.key == key; });
      settings.push_back({key, std::move(value), ""});
    };
    set("model.path", "${model}");
    if (facts_.is_trained) set("model.init", "checkpoint");
    set("experiment.seed", "${seed}");
    if (kind_ != StageKind::evaluate) set("experiment.resume", "auto");
    if (kind_ == StageKind::train) {
      set("experiment.name", "${job}");
      set("experiment.output", folder_.train().string());
    }
    choose_device(settings, set);
    return settings;
  }

  // GPUs that were given are used, or it fails: it never computes on the CPU unless told to.
  template <class Set>
  void choose_device(const Settings& settings, const Set& set) const {
    const bool on_cpu = spec_.device == spec::Device::cpu || facts_.gpus == 0 || facts_.ranks_instead;
    const bool says_ranks = find(settings, "distributed.ranks") != nullptr;
    if (find(settings, "distributed.device") == nullptr) set("distributed.device", on_cpu ? "cpu" : "cuda");
    if (on_cpu && !says_ranks) set("distributed.ranks", std::to_string(std::max(facts_.ranks_instead.value_or(facts_.gpus), 1)));
  }

  const ExperimentSpec& spec_;
  const ExperimentJob& job_;
  StageKind kind_;
  const JobFolder& folder_;
  const StageFacts& facts_;
};

}  // namespace

Result<std::vector<std::string>> stage_command(const ExperimentSpec& spec, const ExperimentJob& job, StageKind kind,
                                               const JobFolder& folder, const StageFacts& facts) {
  return Composition(spec, job, kind, folder, facts).words();
}

}  // namespace muster::experiment
