#include <fmt/format.h>

#include <algorithm>

#include "base/count_of.hpp"
#include "base/duration.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "service/sweep.hpp"
#include "sweep/best_trials.hpp"
#include "sweep/sweep_end.hpp"

namespace muster::service {
namespace {

std::string spoken(double seconds) {
  return to_string(std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000)));
}

std::string describe_parameter(const sweep::Parameter& parameter) {
  if (!parameter.values.empty()) {
    std::vector<std::string> texts;
    for (const sweep::Value& value : parameter.values) texts.push_back(sweep::to_text(value));
    return texts.size() == 1 ? texts.front() : "one of " + join(texts, ", ");
  }
  return fmt::format("{} from {:g} to {:g}", word(parameter.distribution), parameter.min, parameter.max);
}

std::string describe_limits(const sweep::Limits& limits) {
  std::vector<std::string> words;
  if (limits.trials) words.push_back(count_of(*limits.trials, "trial"));
  if (limits.seconds) words.push_back(spoken(*limits.seconds));
  if (limits.trial_timeout) words.push_back(spoken(*limits.trial_timeout) + " for each trial");
  words.push_back(count_of(limits.consecutive_failures, "failure") + " in a row");
  return join(words, ", ");
}

std::string settings_words(const sweep::Settings& settings) { return join(sweep::override_list(settings), " "); }

// The first trials, as if none of them had ended.
std::vector<sweep::Settings> first_suggestions(const SweepPlan& plan, std::size_t most) {
  sweep::TrialList trials{plan.finished, {}};
  std::vector<sweep::Settings> list;
  while (list.size() < most &&
         !sweep::reason_to_end(plan.spec.limits, trials.finished, trials.running.size(), 0, trials.finished.size())) {
    auto next = sweep::suggest_next(plan.spec, trials);
    if (!next) break;
    trials.running.push_back({"", next->settings});
    list.push_back(std::move(next->settings));
  }
  return list;
}

std::string command_words(const SweepPlan& plan, const sweep::Settings& settings) {
  if (plan.spec.command.empty()) return "muster train " + settings_words(settings);
  std::string text;
  for (const std::string& word : plan.spec.command) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

}  // namespace

std::string describe_sweep(const SweepPlan& plan, const Slots& slots) {
  const sweep::SweepSpec& spec = plan.spec;
  std::string text = fmt::format("sweep     {} in {}{}\n", plan.folder.name(), plan.folder.path().string(),
                                 plan.goes_on ? fmt::format(", {} ended so far", count_of(plan.finished.size(), "trial")) : "");
  text += fmt::format("metric    {} ({})\nmethod    {}, seed {}\nlimits    {}\n", spec.metric, word(spec.goal),
                      word(spec.method), spec.seed, describe_limits(spec.limits));
  const auto points = sweep::count_points(spec.space);
  text += fmt::format("space     {}\n",
                      points ? count_of(*points, "point") : "without end");
  for (const sweep::Parameter& parameter : spec.space.parameters)
    text += fmt::format("  {}: {}\n", parameter.path, describe_parameter(parameter));
  for (std::size_t slot = 0; slot < slots.slots.size(); ++slot) {
    std::string mask;
    for (const auto& [name, value] : slots.slots[slot].environment)
      if (name == "CUDA_VISIBLE_DEVICES") mask = value;
    text += fmt::format("run {}     {}, CUDA_VISIBLE_DEVICES={}\n", slot, slots.slots[slot].words(), mask);
  }
  const auto first = first_suggestions(plan, std::max<std::size_t>(slots.slots.size(), 3));
  text += first.empty() ? "next      nothing: it has ended\n" : "next\n";
  for (const sweep::Settings& settings : first) text += "  " + settings_words(settings) + "\n";
  if (!first.empty()) text += "command   " + command_words(plan, first.front()) + "\n";
  return text;
}

int SweepSummary::exit_code() const {
  if (signal != 0) return 128 + signal;
  const bool any = std::ranges::any_of(finished, [](const sweep::Observation& one) { return !one.failed(); });
  return by_failures || !any ? 1 : 0;
}

std::string summary_text(const SweepPlan& plan, const SweepSummary& summary, const std::string& program) {
  const std::string folder = plan.folder.path().string(), above = plan.folder.path().parent_path().string();
  const std::string output = above == SweepRequest{}.output ? "" : " --output " + shell_word(above);
  const auto failures = std::ranges::count_if(summary.finished, &sweep::Observation::failed);
  std::string text = summary.signal != 0
                         ? fmt::format("interrupted after {}; {} sweep run={}{} resumes it\n",
                                       count_of(summary.finished.size(), "trial"), program, plan.folder.name(), output)
                         : fmt::format("{}: {}, {} failed\n", summary.end, count_of(summary.finished.size(), "trial"), failures);
  const auto best = sweep::best_trials(summary.finished, plan.spec.goal, 1);
  if (best.empty() && failures == 0) return text;
  if (best.empty()) return text + fmt::format("no trial succeeded; their logs are in {}\n", folder);
  text += fmt::format("best: {} with {} {:.6g}\n", best.front().trial, plan.spec.metric, *best.front().score);
  for (const std::string& setting : sweep::override_list(best.front().settings)) text += "  " + setting + "\n";
  return text + fmt::format("{} sweep best {}{} exports them; pictures: {}/history.svg, {}/parallel.svg\n", program,
                            plan.folder.name(), output, folder, folder);
}

}  // namespace muster::service
