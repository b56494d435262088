// What is learnt of given answers, as ranks and the preparation of data get it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "spec/values.hpp"

namespace muster::spec {

// Whose part of a conversation is learnt.
enum class SftMode { behavioral_cloning, world_model, combined };
std::vector<Word<SftMode>> words(SftMode);

// Which trajectories are learnt from.
struct TrajectoryChoice {
  std::optional<double> least_reward = {};  // absent: whatever they earned
  std::optional<std::int64_t> most = {};    // the last ones of the data; absent: all

  bool chooses() const { return least_reward || most; }
  bool operator==(const TrajectoryChoice&) const = default;
};

// What the means over the two parts of conversations count.
struct CombinedOptions {
  double answers = 0.5;
  double replies = 0.5;  // what others say to answers

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("answers", self.answers);
    visit("replies", self.replies);
  }
  bool operator==(const CombinedOptions&) const = default;
};

}  // namespace muster::spec
