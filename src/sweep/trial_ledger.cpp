#include "sweep/trial_ledger.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::sweep {

MemoryLedger::MemoryLedger(std::string name, std::vector<Observation> finished)
    : name_(std::move(name)), list_{std::move(finished), {}}, begun_(list_.finished.size()) {}

Result<std::optional<RunningTrial>> MemoryLedger::begin(const Chooser& choose) {
  auto suggestion = choose(list_);
  if (!suggestion) return std::optional<RunningTrial>();
  const auto is_known = [this](const std::string& id) {
    return std::ranges::find(list_.finished, id, &Observation::trial) != list_.finished.end();
  };
  std::string id = fmt::format("{}.r.{}", name_, begun_++);
  while (is_known(id)) id = fmt::format("{}.r.{}", name_, begun_++);
  list_.running.push_back({std::move(id), std::move(suggestion->settings)});
  return std::optional(list_.running.back());
}

Result<std::vector<Report>> MemoryLedger::report(const Report& report) {
  reports_.push_back(report);
  return reports_;
}

Result<void> MemoryLedger::finish(const Observation& observation) {
  std::erase_if(list_.running, [&](const RunningTrial& running) { return running.trial == observation.trial; });
  list_.finished.push_back(observation);
  return {};
}

std::optional<Suggestion> suggest_next(const SweepSpec& spec, const TrialList& trials) {
  std::vector<Settings> running;
  for (const RunningTrial& trial : trials.running) running.push_back(trial.settings);
  return suggest(spec, History{trials.finished, running});
}

}  // namespace muster::sweep
