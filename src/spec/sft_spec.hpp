// The settings of training by given answers.
#pragma once

#include <cstdint>
#include <optional>

#include "spec/sft_options.hpp"

namespace muster::spec {

struct SftSpec {
  SftMode mode = SftMode::behavioral_cloning;
  double bc_weight = 0.5;
  double world_model_weight = 0.5;
  bool filter_low_reward = false;
  double min_reward_threshold = 0;
  std::optional<std::int64_t> max_trajectories;

  // Absent: not both parts are learnt.
  std::optional<CombinedOptions> combined() const;
  TrajectoryChoice trajectories() const;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("mode", &SftSpec::mode,
          "whose part of a conversation is learnt: the assistant's, what is said to its answers, or both");
    field("bc_weight", &SftSpec::bc_weight, "of combined: what the mean over the assistant's tokens counts").at_least(0);
    field("world_model_weight", &SftSpec::world_model_weight, "of combined: what the mean over the others' tokens counts")
        .at_least(0);
    field("filter_low_reward", &SftSpec::filter_low_reward,
          "learn only from trajectories whose rewards add up to min_reward_threshold at least");
    field("min_reward_threshold", &SftSpec::min_reward_threshold, "how much that is");
    field("max_trajectories", &SftSpec::max_trajectories,
          "most trajectories that are learnt from: the last ones of the data; not set: all")
        .at_least(1);
  }
};

}  // namespace muster::spec
