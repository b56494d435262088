#include "spec/run_spec.hpp"

namespace muster::spec {

std::optional<PreferenceOptions> RunSpec::preference_options() const {
  PreferenceOptions options;
  switch (training.algorithm) {
    case Algorithm::dpo:
      options.beta = dpo.beta;
      options.label_smoothing = dpo.label_smoothing;
      options.reference_free = dpo.reference_free;
      for (std::size_t i = 0; i < dpo.loss_type.size(); ++i)
        options.losses.push_back({dpo.loss_type[i], i < dpo.loss_weights.size() ? dpo.loss_weights[i] : 1});
      return options;
    case Algorithm::simpo:
      options.beta = simpo.beta;
      options.gamma = simpo.gamma;
      return options;
    case Algorithm::orpo:
      options.beta = orpo.beta;
      return options;
    case Algorithm::kto:
      options.beta = kto.beta;
      options.desirable_weight = kto.desirable_weight;
      options.undesirable_weight = kto.undesirable_weight;
      return options;
    default:
      return std::nullopt;
  }
}

std::optional<RewardModelOptions> RunSpec::reward_model_options() const {
  if (training.algorithm != Algorithm::reward) return std::nullopt;
  return RewardModelOptions{reward_model.center_rewards_coefficient};
}

}  // namespace muster::spec
