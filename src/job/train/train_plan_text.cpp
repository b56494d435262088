// The plan of a training in words and as JSON, and why it does not fit.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "job/train/train.hpp"
#include "json/fields.hpp"
#include "planning/plan_report.hpp"
#include "planning/remedy_words.hpp"

namespace muster::job {

std::string training_command(const std::vector<plan::SettingChange>& changes) {
  return planning::remedy_command(spec::Command::train, changes);
}

std::string train_plan_text(const TrainPlan& plan, bool colour) {
  std::string text = planning::plan_text(plan.question, plan.plan, training_command, colour);
  if (plan.disk) text += disk_line(*plan.disk) + "\n";
  return text;
}

std::string train_plan_json(const TrainPlan& plan) {
  const std::string text = planning::plan_json(plan.question, plan.plan, training_command);
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (json.is_discarded()) return text;
  if (plan.disk) json["disk"] = disk_json(*plan.disk);
  if (plan.rounds) json["rounds"] = to_json(*plan.rounds);
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Error refusal_of(const TrainPlan& plan) {
  if (!plan.plan.refusal) return disk_refusal(*plan.disk, plan.task());
  const plan::Refusal& refusal = *plan.plan.refusal;
  std::vector<std::string> remedies;
  for (const plan::Remedy& remedy : refusal.remedies)
    remedies.push_back(fmt::format("{} ({})", training_command(remedy.settings), remedy.change));
  return {Error::Kind::refused, refusal.reason,
          remedies.empty() ? "a smaller model, or devices with more memory" : join(remedies, "; ")};
}

}  // namespace muster::job
