// What a round of a run is that samples what it is trained on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster::job {

struct TrainPlan;

// About how long a round takes where every answer has all its tokens.
struct RoundSeconds {
  double sampling = 0;
  double training = 0;

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("sampling", self.sampling);
    visit("training", self.training);
  }
};

struct RoundPlan {
  std::int64_t prompts = 0;
  std::int64_t group = 0;  // answers to each
  std::int64_t most_tokens = 0;
  std::int64_t side_by_side = 0;  // answers that a rank writes at once
  std::int64_t updates = 0;       // optimizer steps with a round's answers
  std::int64_t rounds = 0;
  std::int64_t off_by = 0;
  std::optional<RoundSeconds> seconds = {};  // absent: the device's speed is not known

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("prompts", self.prompts);
    visit("group", self.group);
    visit("most_tokens", self.most_tokens);
    visit("side_by_side", self.side_by_side);
    visit("updates", self.updates);
    visit("rounds", self.rounds);
    visit("off_by", self.off_by);
    visit("seconds", self.seconds);
  }
};

// The plan is one whose task and data are known.
RoundPlan round_plan(const TrainPlan& plan);

// "rounds of 16 prompts × 8 answers: …"
std::string round_words(const RoundPlan& plan);

}  // namespace muster::job
