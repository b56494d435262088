#include "experiment/matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace muster::experiment {
namespace {

constexpr int most_rounds = 10'000;
constexpr std::size_t most_jobs = 1'000'000;

// Names become parts of file names.
bool is_plain(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](char letter) {
    return static_cast<unsigned char>(letter) > 0x20 && letter != '/' && letter != 0x7f;
  });
}

void look_at(const char* what, const std::vector<std::string>& names, std::vector<Problem>& problems) {
  if (names.empty()) problems.push_back({what, "the list is empty", "name at least one"});
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (!is_plain(name))
      problems.push_back({what, fmt::format("\"{}\" cannot be part of an id", name), "use a word without blanks or /"});
    if (!seen.insert(name).second) problems.push_back({what, fmt::format("{} is named twice", name), "name it once"});
  }
}

std::vector<Problem> problems_of(const Matrix& matrix) {
  std::vector<Problem> problems;
  look_at("algorithms", matrix.algorithms, problems);
  look_at("families", matrix.families, problems);
  look_at("datasets", matrix.datasets, problems);
  std::vector<std::string> stages;
  for (const MatrixStage& stage : matrix.stages) stages.push_back(stage.name);
  look_at("stages", stages, problems);
  if (matrix.rounds < 1 || matrix.rounds > most_rounds)
    problems.push_back({"rounds", fmt::format("{}", matrix.rounds), fmt::format("1 to {}", most_rounds)});
  const std::size_t cells = matrix.algorithms.size() * matrix.families.size() * matrix.datasets.size();
  if (problems.empty() && cells > most_jobs / static_cast<std::size_t>(matrix.rounds))
    problems.push_back({"experiment", fmt::format("{} cells in {} rounds", cells, matrix.rounds),
                        fmt::format("at most {} jobs", most_jobs)});
  return problems;
}

std::vector<schedule::Job> stages_of(const Matrix& matrix, const MatrixCell& job) {
  const std::string cell = fmt::format("{}_{}_{}", job.algorithm, job.family, job.dataset);
  std::vector<schedule::Job> stages;
  for (const MatrixStage& stage : matrix.stages) {
    schedule::Job next;
    next.id.text = fmt::format("{}.{}", job.id.text, stage.name);
    next.gpus = stage.gpus;
    if (!stages.empty()) next.after_ok.push_back(stages.back().id);
    next.chain = schedule::ChainPlace{cell, job.round};
    next.priority = matrix.priority;
    next.retries = matrix.retries;
    next.timeout = matrix.timeout;
    next.heartbeat = matrix.heartbeat;
    next.prediction = stage.prediction;
    next.label = fmt::format("{}.{}", cell, stage.name);
    next.kind = stage.name;
    stages.push_back(std::move(next));
  }
  return stages;
}

}  // namespace

Result<std::vector<MatrixCell>> expand(const Matrix& matrix) {
  std::vector<Problem> problems = problems_of(matrix);
  if (!problems.empty()) return to_error(problems);
  std::vector<MatrixCell> jobs;
  std::set<std::string> ids;
  for (const std::string& algorithm : matrix.algorithms)
    for (const std::string& family : matrix.families)
      for (const std::string& dataset : matrix.datasets)
        for (int round = 1; round <= matrix.rounds; ++round) {
          MatrixCell job{
              {fmt::format("{}_{}_{}_r{}", algorithm, family, dataset, round)}, algorithm, family, dataset, round, {}};
          if (!ids.insert(job.id.text).second)
            problems.push_back({"experiment", fmt::format("two jobs would be called {}", job.id.text),
                                "rename an algorithm, family or data set"});
          job.stages = stages_of(matrix, job);
          jobs.push_back(std::move(job));
        }
  if (!problems.empty()) return to_error(problems);
  return jobs;
}

std::vector<schedule::Job> jobs_to_submit(const Matrix& matrix, std::span<const MatrixCell> jobs,
                                const StagesDone& done) {
  std::vector<schedule::Job> left;
  std::optional<schedule::JobId> before;  // the last stage of the job before
  for (const MatrixCell& job : jobs) {
    const std::size_t first = done ? std::min(done(job), job.stages.size()) : 0;
    for (std::size_t i = first; i < job.stages.size(); ++i) {
      schedule::Job stage = job.stages[i];
      if (i == first) stage.after_ok.clear();
      if (i == first && !matrix.parallel && before) stage.after.push_back(*before);
      left.push_back(std::move(stage));
    }
    if (first < job.stages.size()) before = job.stages.back().id;
  }
  return left;
}

}  // namespace muster::experiment
