// What a policy learns from its own answers, as ranks get it: how answers are drawn, how many, and how those that earned
// more than others become likelier.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "spec/values.hpp"

namespace muster::spec {

// TRL's names for how the losses of tokens are put together (and, of cispo and sapo, what they are).
enum class PolicyLoss { dapo, grpo, dr_grpo, luspo, cispo, sapo };
std::vector<Word<PolicyLoss>> words(PolicyLoss);

// Whose probability is compared with the one that an answer was drawn by: each token's, the geometric mean of an
// answer's tokens, or the whole answer's.
enum class RatioLevel { token, sequence, product };
std::vector<Word<RatioLevel>> words(RatioLevel);

// The deviation that rewards are divided by: of the group's, of the round's, or of all so far.
enum class RewardScale { group, batch, running, none };
std::vector<Word<RewardScale>> words(RewardScale);

struct PolicyOptions {
  std::int64_t group = 8;       // answers to a prompt
  std::int64_t answers = 128;   // of a round, all prompts together
  std::int64_t draws = 1;       // of a round at most: groups that teach nothing are replaced by others
  std::int64_t iterations = 1;  // how often a round's answers are trained on
  std::int64_t off_by = 0;      // rounds that answers are drawn before they are trained on
  PolicyLoss loss = PolicyLoss::dapo;
  RatioLevel level = RatioLevel::token;
  double clip_low = 0.2;
  double clip_high = 0.2;  // of cispo the largest ratio
  std::optional<double> ratio_cap = {};
  double gate_above = 1;  // of sapo: how sharply answers are held that earned more than others, and less
  double gate_below = 1.05;
  RewardScale scale = RewardScale::group;
  double scale_floor = 1e-4;   // is added to what rewards are divided by
  bool leave_one_out = false;  // an answer is compared with the others of its group, itself left out
  double beta = 0;             // how much the policy is held to the reference; 0: there is none
  bool masks_cut = false;      // answers without an end are not trained on
  std::int64_t most_tokens = 256;
  double temperature = 1;
  double top_p = 1;
  std::int64_t top_k = 0;
  double min_p = 0;
  std::vector<std::int64_t> stop_tokens = {};

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("group", self.group);
    visit("answers", self.answers);
    visit("draws", self.draws);
    visit("iterations", self.iterations);
    visit("off_by", self.off_by);
    visit("loss", self.loss);
    visit("level", self.level);
    visit("clip_low", self.clip_low);
    visit("clip_high", self.clip_high);
    visit("ratio_cap", self.ratio_cap);
    visit("gate_above", self.gate_above);
    visit("gate_below", self.gate_below);
    visit("scale", self.scale);
    visit("scale_floor", self.scale_floor);
    visit("leave_one_out", self.leave_one_out);
    visit("beta", self.beta);
    visit("masks_cut", self.masks_cut);
    visit("most_tokens", self.most_tokens);
    visit("temperature", self.temperature);
    visit("top_p", self.top_p);
    visit("top_k", self.top_k);
    visit("min_p", self.min_p);
    visit("stop_tokens", self.stop_tokens);
  }
  bool operator==(const PolicyOptions&) const = default;
};

// How the divergence from the reference is measured at a token, of d = ln(reference / drawn): −d, or e^d − d − 1.
enum class DivergenceEstimate { k1, k3 };
std::vector<Word<DivergenceEstimate>> words(DivergenceEstimate);

// How a policy learns beside it what an answer is still going to earn, from each of its tokens on (PPO).
struct CriticOptions {
  double discount = 0.99;   // of what is earned one token later
  double smoothing = 0.95;  // of what later tokens say about an earlier one's advantage
  bool whitens = true;      // advantages of a round have mean 0 and variance 1
  std::optional<double> clip = {};  // how far a value may move before it no longer counts
  double value_weight = 0.5;
  double entropy_weight = 0.01;
  DivergenceEstimate divergence = DivergenceEstimate::k1;  // what PolicyOptions::beta is multiplied by
  std::optional<double> divergence_target = {};  // of an answer; beta follows it from round to round
  double divergence_horizon = 10000;             // answers
  double missing_end_penalty = 0;
  std::optional<double> most_change = {};  // of the policy within a round: beyond it the round's updates end

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("discount", self.discount);
    visit("smoothing", self.smoothing);
    visit("whitens", self.whitens);
    visit("clip", self.clip);
    visit("value_weight", self.value_weight);
    visit("entropy_weight", self.entropy_weight);
    visit("divergence", self.divergence);
    visit("divergence_target", self.divergence_target);
    visit("divergence_horizon", self.divergence_horizon);
    visit("missing_end_penalty", self.missing_end_penalty);
    visit("most_change", self.most_change);
  }
  bool operator==(const CriticOptions&) const = default;
};

// Whether a model is trained by the rewards of answers that it samples itself.
constexpr bool samples_answers(Algorithm algorithm) {
  return algorithm == Algorithm::grpo || algorithm == Algorithm::rloo || algorithm == Algorithm::ppo;
}

}  // namespace muster::spec
