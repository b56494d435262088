// The settings of reward models: what scores of two texts learn, one of which is better.
#pragma once

#include "spec/reward_model_options.hpp"

namespace muster::spec {

struct RewardModelSpec {
  double center_rewards_coefficient = 0;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("center_rewards_coefficient", &RewardModelSpec::center_rewards_coefficient,
          "holds the scores of a pair near 0: what the mean square of their sum counts beside the loss; 0.01 is usual")
        .at_least(0);
  }
};

}  // namespace muster::spec
