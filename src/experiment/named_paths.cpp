#include "experiment/named_paths.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/text.hpp"

namespace muster::experiment {
namespace {

bool is_known_now(std::string_view text) {
  return !text.empty() && text.find("${") == std::string_view::npos && !text.starts_with("builtin:") &&
         !text.starts_with("[");
}

bool looks_like_a_path(std::string_view text) {
  return text.starts_with("/") || text.starts_with("./") || text.starts_with("../");
}

bool is_there(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }

bool can_be_run(const std::string& program) {
  const auto is_program = [](const std::filesystem::path& path) {
    std::error_code failure;
    return std::filesystem::is_regular_file(path, failure) && ::access(path.c_str(), X_OK) == 0;
  };
  if (program.find('/') != std::string::npos) return is_program(program);
  const char* path = std::getenv("PATH");
  const std::vector<std::string> folders = split(path == nullptr ? "/usr/bin:/bin" : path, ':');
  return std::ranges::any_of(folders, [&](const std::string& folder) {
    return is_program(std::filesystem::path(folder.empty() ? "." : folder) / program);
  });
}

class Search {
 public:
  explicit Search(const ExperimentSpec& spec) : spec_(spec) {}

  std::vector<Problem> run() {
    look_at(spec_.settings);
    for (const auto* choices : {&spec_.algorithms, &spec_.families})
      for (const Choice& choice : *choices) look_at(choice.settings);
    for (const DataSet& dataset : spec_.datasets) {
      look_at(dataset.settings);
      if (spec_.stage(StageKind::generate).is_own()) look_at_file(dataset.prompts, "prompts", dataset.where);
      if (spec_.stage(StageKind::evaluate).is_own()) look_at_file(dataset.questions, "questions", dataset.where);
    }
    for (const Stage& stage : spec_.stages) look_at(stage);
    return std::move(problems_);
  }

 private:
  void look_at(const Settings& settings) {
    for (const Setting& setting : settings) {
      const bool is_data = setting.key == "data.path" && !spec_.stage(StageKind::generate).wanted &&
                           spec_.stage(StageKind::train).is_own();
      // What a command does with the name of a model is up to it.
      const bool is_model = setting.key == "model.path" && looks_like_a_path(setting.value) &&
                            std::ranges::any_of(spec_.stages, &Stage::is_own);
      if (is_data || is_model) look_at_file(setting.value, setting.key, setting.where);
    }
  }

  void look_at_file(const std::optional<std::string>& path, std::string_view what, const std::string& where) {
    if (!path || !is_known_now(*path) || is_there(*path)) return;
    add(where, fmt::format("{} is {}, and there is no such file or folder", what, *path),
        "write a path that is there, from the current folder or from /");
  }

  void look_at(const Stage& stage) {
    if (!stage.wanted) return;
    look_at(stage.settings);
    if (stage.command.empty() || !is_known_now(stage.command.front()) || can_be_run(stage.command.front())) return;
    add(stage.where, fmt::format("the command begins with {}, and there is no such program", stage.command.front()),
        "write its path, or a name that is found through PATH");
  }

  void add(const std::string& where, std::string what, std::string remedy) {
    Problem problem{where, std::move(what), std::move(remedy)};
    if (std::ranges::find(problems_, problem) == problems_.end()) problems_.push_back(std::move(problem));
  }

  const ExperimentSpec& spec_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> missing_paths(const ExperimentSpec& spec) { return Search(spec).run(); }

}  // namespace muster::experiment
