#include "spec/critic_choice.hpp"

#include <fmt/format.h>

#include "spec/reward_model_choice.hpp"

namespace muster::spec {

Result<std::optional<ModelDescription>> choose_critic(const RunSpec& spec, const ModelSearch& search) {
  if (!spec.critic_options() || !spec.ppo.critic) return std::optional<ModelDescription>();
  auto model = read_model(*spec.ppo.critic, search, std::nullopt);
  if (!model) return bad_input("ppo.critic: " + model.error().what, model.error().remedy);
  const bool begins_from_nothing = spec.model.init == WeightSource::random && spec.ppo.critic == spec.model.path;
  if (!model->checkpoint_bytes && !begins_from_nothing)
    return bad_input(fmt::format("ppo.critic: {} has no weights: there is no checkpoint beside its config",
                                 *spec.ppo.critic),
                     "name the folder that has model.safetensors");
  if (!model->config.score) return std::optional(with_score_head(std::move(*model), ScoreHead()));
  if (auto checked = check_one_score(*model); !checked)
    return bad_input("ppo.critic: " + checked.error().what,
                     "name a …ForSequenceClassification with one label, or a causal language model, which gets a fresh "
                     "head");
  return std::optional(std::move(*model));
}

}  // namespace muster::spec
