#include "job/job_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "planning/remedy_words.hpp"

namespace muster::job {

Result<plan::Question> ask(host::Host& host, planning::PlanRequest request, const host::ChosenDevices& chosen) {
  request.devices = chosen;
  request.implementation = plan::Implementation::muster;
  auto question = planning::plan_question(host, request);
  if (question) question->spare.clear();
  return question;
}

planning::PlanRequest inference_request(spec::RunSpec settings) {
  settings.distributed.strategy = spec::Strategy::automatic;
  settings.distributed.num_nodes = 1;
  planning::PlanRequest request;
  request.spec = std::move(settings);
  return request;
}

Result<void> check_weights(const plan::Question& question, const spec::ModelSpec& model, std::string_view remedy) {
  if (model.init == spec::WeightSource::random || question.model->checkpoint_bytes) return {};
  return Error{Error::Kind::bad_input,
               fmt::format("{} has no weights: there is no checkpoint beside its config", *model.path),
               std::string(remedy)};
}

Result<void> check_predicts_tokens(const spec::ModelDescription& model) {
  if (model.config.predicts_tokens()) return {};
  return Error{Error::Kind::bad_input,
               fmt::format("{} is a {}: it scores texts, and has no head that predicts tokens", model.name,
                           model.shape.modules.front().class_name),
               "name a causal language model; what scores can judge answers (reward.model)"};
}

std::optional<gpu::SelectionRequest> gpus_of(const plan::Plan& plan) {
  gpu::SelectionRequest selection;
  for (const plan::RankPlan& rank : plan.ranks) {
    if (!rank.gpu) continue;
    const gpu::GpuName name = static_cast<gpu::VisibleIndex>(rank.gpu->number);
    if (std::ranges::find(selection.ids, name) == selection.ids.end()) selection.ids.push_back(name);
  }
  return selection.ids.empty() ? std::nullopt : std::optional(std::move(selection));
}

std::string device_words(const plan::Plan& plan, std::size_t ranks, std::string_view one_cpu_rank) {
  const auto gpus = gpus_of(plan);
  if (!gpus) return ranks == 1 ? std::string(one_cpu_rank) : fmt::format("{} CPU ranks", ranks);
  const std::vector<std::string> numbers = texts_of(gpus->ids);
  return fmt::format("{} GPU{} ({}) {}", numbers.size(), numbers.size() == 1 ? "" : "s", join(numbers, ","),
                     plan.ranks.front().gpu->name);
}

Error refusal_of(const plan::Plan& plan, spec::Command command, std::string_view otherwise) {
  std::vector<std::string> remedies;
  for (const plan::Remedy& remedy : plan.refusal->remedies)
    if (auto words = planning::remedy_options(command, remedy)) remedies.push_back(std::move(*words));
  return {Error::Kind::refused, plan.refusal->reason,
          remedies.empty() ? std::string(otherwise) : join(remedies, "; ")};
}

}  // namespace muster::job
