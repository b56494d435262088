#include "spec/sft_spec.hpp"

namespace muster::spec {

std::vector<Word<SftMode>> words(SftMode) {
  return {{"behavioral_cloning", SftMode::behavioral_cloning},
          {"world_model", SftMode::world_model},
          {"combined", SftMode::combined}};
}

std::optional<CombinedOptions> SftSpec::combined() const {
  return mode == SftMode::combined ? std::optional(CombinedOptions{bc_weight, world_model_weight}) : std::nullopt;
}

TrajectoryChoice SftSpec::trajectories() const {
  return {filter_low_reward ? std::optional(min_reward_threshold) : std::nullopt, max_trajectories};
}

}  // namespace muster::spec
