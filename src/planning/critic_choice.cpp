#include "planning/critic_choice.hpp"

#include <fmt/format.h>

#include "spec/reward_model_choice.hpp"

namespace muster::planning {

Result<std::optional<spec::ModelDescription>> choose_critic(const spec::RunSpec& spec,
                                                            const spec::ModelSearch& search) {
  const std::optional<std::string>& named = spec.ppo.critic;
  if (!spec.critic_options() || !named) return std::optional<spec::ModelDescription>();
  auto model = spec::read_model(*named, search, std::nullopt);
  if (!model) return bad_input("ppo.critic: " + model.error().what, model.error().remedy);
  const bool begins_from_nothing = spec.model.init == spec::WeightSource::random && named == spec.model.path;
  if (!model->checkpoint_bytes && !begins_from_nothing)
    return bad_input(fmt::format("ppo.critic: {} has no weights: there is no checkpoint beside its config", *named),
                     "name the folder that has model.safetensors");
  if (!model->config.score) return std::optional(spec::with_score_head(std::move(*model), spec::ScoreHead()));
  if (auto checked = spec::check_one_score(*model); !checked)
    return bad_input("ppo.critic: " + checked.error().what,
                     "name a …ForSequenceClassification with one label, or a causal language model, whose head is "
                     "replaced by a fresh one");
  return std::optional(std::move(*model));
}

}  // namespace muster::planning
