// The settings of training by given answers.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/capability.hpp"
#include "spec/values.hpp"

namespace muster::spec {

// Whose part of a conversation is learnt.
enum class SftMode { behavioral_cloning, world_model, combined };
std::vector<Word<SftMode>> words(SftMode);

struct SftSpec {
  SftMode mode = SftMode::behavioral_cloning;
  double bc_weight = 0.5;
  double world_model_weight = 0.5;
  bool filter_low_reward = false;
  double min_reward_threshold = 0;
  std::int64_t collect_every = 1;
  std::int64_t max_trajectories = 1000;

  template <class Visitor>
  static void describe(Visitor& field) {
    using enum Capability;
    field("mode", &SftSpec::mode,
          "whose part of a conversation is learnt: the assistant's, what its surroundings answer, or both")
        .value_needs("world_model", trajectories)
        .value_needs("combined", trajectories);
    field("bc_weight", &SftSpec::bc_weight, "of combined: what the assistant's part counts").at_least(0).needs(trajectories);
    field("world_model_weight", &SftSpec::world_model_weight, "of combined: what the other part counts")
        .at_least(0)
        .needs(trajectories);
    field("filter_low_reward", &SftSpec::filter_low_reward, "learn only from trajectories that earned enough")
        .needs(trajectories);
    field("min_reward_threshold", &SftSpec::min_reward_threshold, "how much that is").needs(trajectories);
    field("collect_every", &SftSpec::collect_every, "passes between collections of trajectories")
        .at_least(1)
        .needs(trajectories);
    field("max_trajectories", &SftSpec::max_trajectories, "most trajectories that are learnt from")
        .at_least(1)
        .needs(trajectories);
  }
};

}  // namespace muster::spec
