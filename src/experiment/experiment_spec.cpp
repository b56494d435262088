#include "experiment/experiment_spec.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::experiment {
namespace {

template <class Named>
std::vector<std::string> names_of(const std::vector<Named>& all) {
  std::vector<std::string> names;
  for (const Named& one : all) names.push_back(one.name);
  return names;
}

template <class Named>
const Named* find(const std::vector<Named>& all, const std::string& name) {
  return &*std::ranges::find(all, name, &Named::name);
}

// Samples can be spread over any number of GPUs, so generation takes those that no other job can use.
schedule::GpuRequest usual_gpu_request(StageKind kind) {
  if (kind == StageKind::generate) return {1, schedule::most_gpus};
  return schedule::GpuRequest::exactly(1);
}

schedule::GpuRequest request_of(const ExperimentSpec& spec, StageKind kind, std::size_t gpus,
                          std::vector<Problem>& problems) {
  const Stage& stage = spec.stage(kind);
  const bool may_do_without = !stage.gpus || (stage.is_own() && spec.device != spec::Device::cuda);
  if (gpus == 0 && may_do_without) return schedule::GpuRequest::exactly(0);
  const schedule::GpuRequest request = stage.gpus.value_or(usual_gpu_request(kind));
  if (static_cast<std::size_t>(request.minimum) > gpus)
    problems.push_back(
        {stage.where,
         fmt::format("{}: {} GPU{} wanted, {} visible", name(kind), request.minimum, request.minimum == 1 ? "" : "s", gpus),
         fmt::format("{}.gpus={}; muster doctor says why no more are seen", name(kind), gpus)});
  return request;
}

}  // namespace

std::string_view name(StageKind stage) {
  switch (stage) {
    case StageKind::generate:
      return "generate";
    case StageKind::train:
      return "train";
    case StageKind::evaluate:
      return "evaluate";
  }
  return "";
}

std::optional<StageKind> stage_of(std::string_view text) {
  for (const StageKind kind : all_stages)
    if (name(kind) == text) return kind;
  return std::nullopt;
}

std::vector<StageKind> ExperimentSpec::wanted_stages() const {
  std::vector<StageKind> wanted;
  for (const StageKind kind : all_stages)
    if (stage(kind).wanted) wanted.push_back(kind);
  return wanted;
}

Result<std::vector<ExperimentJob>> jobs_of(const ExperimentSpec& spec, std::size_t gpus) {
  Matrix matrix;
  matrix.algorithms = names_of(spec.algorithms);
  matrix.families = names_of(spec.families);
  matrix.datasets = names_of(spec.datasets);
  matrix.rounds = spec.rounds;
  matrix.priority = spec.priority;
  matrix.stages.clear();
  std::vector<Problem> problems;
  const std::vector<StageKind> wanted = spec.wanted_stages();
  for (const StageKind kind : wanted)
    matrix.stages.push_back({std::string(name(kind)), request_of(spec, kind, gpus, problems), spec.stage(kind).predicted});
  if (!problems.empty()) {
    Error error = to_error(problems);
    error.kind = Error::Kind::refused;
    return error;
  }
  auto expanded = expand(matrix);
  if (!expanded) return expanded.error();
  std::vector<ExperimentJob> jobs;
  for (MatrixCell& cell : *expanded) {
    ExperimentJob job{cell.id,
                      find(spec.algorithms, cell.algorithm),
                      find(spec.families, cell.family),
                      find(spec.datasets, cell.dataset),
                      cell.round,
                      std::move(cell.stages)};
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Stage& stage = spec.stage(wanted[i]);
      job.stages[i].retries = stage.retries;
      job.stages[i].timeout = stage.timeout;
      job.stages[i].heartbeat = stage.heartbeat;
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace muster::experiment
