#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "service/sweep.hpp"
#include "service/trial_run.hpp"
#include "sweep/best_trials.hpp"
#include "sweep/trial_command.hpp"

namespace muster::service {
namespace {

// The command that a trial ran, as a line for a shell.
Result<std::string> command_line(const SweepPlan& plan, const sweep::Observation& trial, const std::string& program) {
  const auto value_of = [&](std::string_view variable) -> std::optional<std::string> {
    if (variable == "MUSTER_TRIAL") return trial.trial;
    if (variable == "MUSTER_SWEEP") return plan.folder.name();
    if (variable == "MUSTER_TRIAL_FOLDER") return std::filesystem::absolute(plan.folder.trial(trial.trial)).string();
    const char* value = std::getenv(std::string(variable).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  auto words = plan.spec.command.empty()
                   ? training_command(program, trial.settings)
                   : sweep::expand_command(plan.spec.command, trial.settings, {plan.spec.program, value_of});
  if (!words) return words.error();
  for (std::string& word : *words) word = shell_word(word);
  return join(*words, " ");
}

}  // namespace

Result<std::vector<BestTrial>> best_of_sweep(const std::string& output, const std::string& name, std::size_t most,
                                             const std::string& program) {
  SweepRequest request;
  request.name = name;
  request.output = output;
  if (auto checked = sweep::check_sweep_name(name); !checked) return checked.error();
  if (!sweep::SweepFolder(output, name).exists())
    return Error{Error::Kind::bad_input, fmt::format("there is no sweep {} in {}", name, output),
                 "muster sweep SPEC.yaml makes one; --output names another folder of sweeps"};
  const auto plan = plan_sweep(request);
  if (!plan) return plan.error();
  std::vector<BestTrial> list;
  for (sweep::Observation& trial : sweep::best_trials(plan->finished, plan->spec.goal, most)) {
    auto command = command_line(*plan, trial, program);
    if (!command) return command.error();
    list.push_back({trial, sweep::yaml_patch(trial.settings), sweep::override_list(trial.settings), *command});
  }
  if (list.empty())
    return Error{Error::Kind::failed, fmt::format("no trial of {} has succeeded yet", name),
                 fmt::format("muster sweep run={} resumes it", name)};
  return list;
}

}  // namespace muster::service
