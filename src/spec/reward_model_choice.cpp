#include "spec/reward_model_choice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "spec/packed_name.hpp"

namespace muster::spec {
namespace {

bool judges(const RunSpec& spec) {
  if (!spec.policy_options() || !spec.reward.functions || !spec.reward.model) return false;
  return std::ranges::find(*spec.reward.functions, RewardFunction::model) != spec.reward.functions->end();
}

}  // namespace

Result<void> check_one_score(const ModelDescription& model) {
  const auto& score = model.config.score;
  if (score && score->use == ScoreUse::sequences && score->outputs == 1) return {};
  const std::string& kind = model.shape.modules.front().class_name;
  if (!score)
    return bad_input(fmt::format("{} is a {}: it has no score.weight, the head that gives a text its score", model.name, kind),
                     "name a …ForSequenceClassification with one label; training.algorithm=reward makes one");
  if (score->use == ScoreUse::sequences)
    return bad_input(fmt::format("{} has {} labels, and a reward is one score", model.name, score->outputs),
                     "name a model whose head has one label: config.json's id2label counts them, two where it is missing");
  return bad_input(fmt::format("{} is a {}: it scores every token", model.name, kind),
                   "name a …ForSequenceClassification, which gives a text one score");
}

Result<std::optional<RewardModelChoice>> choose_reward_model(const RunSpec& spec, const ModelSearch& search) {
  if (!judges(spec)) return std::optional<RewardModelChoice>();
  ModelSpec named;
  named.path = spec.reward.model;
  if (auto taken = take_packed_name(named, search); !taken) return taken.error();
  auto description = read_model(*named.path, search, std::nullopt);
  if (!description) return bad_input("reward.model: " + description.error().what, description.error().remedy);
  if (auto checked = check_one_score(*description); !checked)
    return bad_input("reward.model: " + checked.error().what, checked.error().remedy);
  if (!description->checkpoint_bytes)
    return bad_input(fmt::format("reward.model: {} has no weights: there is no checkpoint beside its config", *named.path),
                     "name the folder that has model.safetensors");
  return std::optional(RewardModelChoice{*named.path, std::move(*description), named.weight_options()});
}

}  // namespace muster::spec
