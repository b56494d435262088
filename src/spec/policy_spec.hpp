// The settings of algorithms that learn from the rewards of a model's own answers.
#pragma once

#include <optional>
#include <string>

#include "spec/policy_options.hpp"

namespace muster::spec {

struct GrpoSpec {
  std::int64_t num_generations = 8;
  std::int64_t max_draws = 1;
  std::int64_t num_iterations = 1;
  PolicyLoss loss_type = PolicyLoss::dapo;
  RatioLevel importance_sampling_level = RatioLevel::token;
  double epsilon = 0.2;
  std::optional<double> epsilon_high;
  std::optional<double> delta;
  double beta = 0;
  double sapo_temperature_pos = 1.0;
  double sapo_temperature_neg = 1.05;
  RewardScale scale_rewards = RewardScale::group;
  bool normalize_rewards = true;
  double scale_epsilon = 1e-4;
  bool mask_truncated_completions = false;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("num_generations", &GrpoSpec::num_generations, "answers to each prompt, which are compared with each other")
        .at_least(2);
    field("max_draws", &GrpoSpec::max_draws,
          "how often prompts are drawn for a round until it is full of groups whose answers did not all earn the same; 1: "
          "those that did stay (dynamic sampling)")
        .at_least(1);
    field("num_iterations", &GrpoSpec::num_iterations, "how often the answers of a round are trained on").at_least(1);
    field("loss_type", &GrpoSpec::loss_type,
          "what a token counts: dapo and cispo the same in all answers of a step, grpo and sapo the same in its own "
          "answer, dr_grpo the same always, luspo more in longer answers");
    field("importance_sampling_level", &GrpoSpec::importance_sampling_level,
          "whose probability is compared with what it was drawn by: a token's, or the whole sequence's (GSPO)");
    field("epsilon", &GrpoSpec::epsilon, "how far a probability may fall before an answer no longer counts").at_least(0);
    field("epsilon_high", &GrpoSpec::epsilon_high,
          "how far it may rise; not set: as far as it may fall. Of cispo the largest ratio, usually 5")
        .at_least(0);
    field("delta", &GrpoSpec::delta, "ratio above which an answer with a negative advantage no longer counts").above(1);
    field("beta", &GrpoSpec::beta, "how much the policy is held to what it began as; 0: not at all").at_least(0);
    field("sapo_temperature_pos", &GrpoSpec::sapo_temperature_pos, "of sapo: sharpness of the gate for what is rewarded")
        .above(0);
    field("sapo_temperature_neg", &GrpoSpec::sapo_temperature_neg, "of sapo: the same for what is not").above(0);
    field("scale_rewards", &GrpoSpec::scale_rewards,
          "what differences of rewards are divided by: the deviation within the group, within the whole round, of all rewards of "
          "the run so far (running), or nothing");
    field("normalize_rewards", &GrpoSpec::normalize_rewards, "false: the same as scale_rewards: none");
    field("scale_epsilon", &GrpoSpec::scale_epsilon, "is added to that deviation").above(0);
    field("mask_truncated_completions", &GrpoSpec::mask_truncated_completions,
          "answers that came to no end within max_new_tokens are not trained on");
  }
};

struct RlooSpec {
  std::int64_t num_generations = 2;
  std::int64_t num_iterations = 1;
  double epsilon = 0.2;
  std::optional<double> epsilon_high;
  double beta = 0.05;
  bool mask_truncated_completions = false;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("num_generations", &RlooSpec::num_generations, "answers to each prompt, each compared with the others")
        .at_least(2);
    field("num_iterations", &RlooSpec::num_iterations, "how often the answers of a round are trained on").at_least(1);
    field("epsilon", &RlooSpec::epsilon, "how far an answer's probability may fall before it no longer counts").at_least(0);
    field("epsilon_high", &RlooSpec::epsilon_high, "how far it may rise; not set: as far as it may fall").at_least(0);
    field("beta", &RlooSpec::beta,
          "what rewards lose for answers that are likelier than by what the policy began as; 0: nothing")
        .at_least(0);
    field("mask_truncated_completions", &RlooSpec::mask_truncated_completions,
          "answers that came to no end within max_new_tokens are not trained on");
  }
};

// The names are a guide's and TRL's.
struct PpoSpec {
  std::int64_t num_generations = 1;
  std::int64_t num_ppo_epochs = 4;
  std::optional<std::int64_t> num_mini_batches;
  double clip_range = 0.2;
  std::optional<double> clip_range_vf;
  double gamma = 0.99;
  double gae_lambda = 0.95;
  bool normalize_advantages = true;
  double value_loss_coef = 0.5;
  double entropy_coef = 0.01;
  std::optional<double> target_kl;
  double kl_coef = 0;
  DivergenceEstimate kl_estimator = DivergenceEstimate::k1;
  std::optional<double> adaptive_kl_target;
  double adaptive_kl_horizon = 10000;
  double missing_eos_penalty = 0;
  std::optional<std::string> critic;
  std::optional<double> critic_learning_rate;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("num_generations", &PpoSpec::num_generations, "answers to each prompt").at_least(1);
    field("num_ppo_epochs", &PpoSpec::num_ppo_epochs, "how often the answers of a round are trained on").at_least(1);
    field("num_mini_batches", &PpoSpec::num_mini_batches,
          "optimizer steps of each time; not set: as training.batch_size says, and a single one without it")
        .at_least(1);
    field("clip_range", &PpoSpec::clip_range, "how far a token's probability may move before it no longer counts")
        .at_least(0);
    field("clip_range_vf", &PpoSpec::clip_range_vf, "how far its value may; not set: any way").above(0);
    field("gamma", &PpoSpec::gamma, "what a reward counts one token earlier").at_least(0).at_most(1);
    field("gae_lambda", &PpoSpec::gae_lambda,
          "how much later tokens say about an earlier one: 0: the next value alone, 1: everything that was earned")
        .at_least(0)
        .at_most(1);
    field("normalize_advantages", &PpoSpec::normalize_advantages, "advantages of a round have mean 0 and variance 1");
    field("value_loss_coef", &PpoSpec::value_loss_coef, "what the loss of values counts beside the policy's").at_least(0);
    field("entropy_coef", &PpoSpec::entropy_coef, "what the policy earns for being undecided").at_least(0);
    field("target_kl", &PpoSpec::target_kl,
          "how far a step may find the policy from what the round was drawn by, mean of ratio - 1 - ln ratio; after "
          "one that is further away the round ends; not set: never")
        .above(0);
    field("kl_coef", &PpoSpec::kl_coef,
          "what a token's reward loses where it is likelier than by what the policy began as; 0: nothing")
        .at_least(0);
    field("kl_estimator", &PpoSpec::kl_estimator, "how that is measured, with d = ln(began / drawn): k1: -d, k3: e^d - d - 1");
    field("adaptive_kl_target", &PpoSpec::adaptive_kl_target,
          "divergence of an answer that kl_coef is adapted to, from round to round; not set: it stays")
        .above(0);
    field("adaptive_kl_horizon", &PpoSpec::adaptive_kl_horizon, "over how many answers it adapts").in("answers").above(0);
    field("missing_eos_penalty", &PpoSpec::missing_eos_penalty, "what an answer loses that came to no end").at_least(0);
    field("critic", &PpoSpec::critic,
          "a model of its own that values are learnt by: a folder or a name, with a head of one score, or else with a fresh "
          "one; not set: a head of the policy");
    field("critic_learning_rate", &PpoSpec::critic_learning_rate, "its peak rate; not set: training.learning_rate").above(0);
  }
};

}  // namespace muster::spec
