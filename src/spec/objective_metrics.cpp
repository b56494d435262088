#include "spec/objective_metrics.hpp"

#include <array>

#include "spec/policy_options.hpp"

namespace muster::spec {
namespace {

// TRL's names. The last three are ORPO's.
constexpr std::array<std::string_view, 9> of_pairs{
    "rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins", "logps/chosen",
    "logps/rejected", "nll_loss",         "log_odds_ratio",     "log_odds_chosen"};

constexpr std::array<std::string_view, 6> of_judgements{
    "rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen", "logps/rejected", "kl"};

// TRL's names. The last two are the least and the greatest of a step.
constexpr std::array<std::string_view, 5> of_scores{"mean_reward", "accuracy", "margin", "min_reward", "max_reward"};

// Guide 0's names: the mean losses of the two parts.
constexpr std::array<std::string_view, 2> of_combined{"bc_loss", "world_model_loss"};

// TRL's names.
constexpr std::array<std::string_view, 5> of_policies{"kl", "clip_ratio/low_mean", "clip_ratio/high_mean",
                                                      "clip_ratio/region_mean",
                                                      "sampling/sampling_logp_difference/mean"};

constexpr std::array<std::string_view, 9> of_policies_with_critics{
    "policy/approxkl_avg", "policy/kl_avg",       "policy/clipfrac_avg", "policy/entropy_avg",
    "loss/policy_avg",     "loss/value_avg",      "val/ratio",           "val/clipfrac_avg",
    "sampling/sampling_logp_difference/mean"};

constexpr std::array<std::string_view, 10> of_rounds{"reward",
                                                     "reward_std",
                                                     "frac_reward_zero_std",
                                                     "completions/mean_length",
                                                     "completions/min_length",
                                                     "completions/max_length",
                                                     "completions/mean_terminated_length",
                                                     "completions/clipped_ratio",
                                                     "num_tokens",
                                                     "unjudged"};

// TRL's names; the last six are of_earnings.
constexpr std::array<std::string_view, 15> of_rounds_with_critics{"reward",
                                                                  "reward_std",
                                                                  "completions/mean_length",
                                                                  "completions/min_length",
                                                                  "completions/max_length",
                                                                  "completions/mean_terminated_length",
                                                                  "completions/clipped_ratio",
                                                                  "num_tokens",
                                                                  "unjudged",
                                                                  "objective/kl",
                                                                  "objective/entropy",
                                                                  "objective/non_score_reward",
                                                                  "objective/rlhf_reward",
                                                                  "objective/scores",
                                                                  "objective/kl_coef"};

}  // namespace

std::span<const std::string_view> metrics_beside_loss(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::dpo:
    case Algorithm::simpo:
      return std::span(of_pairs).first(6);
    case Algorithm::orpo:
      return of_pairs;
    case Algorithm::kto:
      return of_judgements;
    case Algorithm::reward:
      return of_scores;
    case Algorithm::grpo:
    case Algorithm::rloo:
      return of_policies;
    case Algorithm::ppo:
      return of_policies_with_critics;
    case Algorithm::sft:
    case Algorithm::pita:
    case Algorithm::qsharp:
      break;
  }
  return {};
}

std::span<const std::string_view> metrics_of_round(Algorithm algorithm) {
  if (algorithm == Algorithm::ppo) return of_rounds_with_critics;
  return samples_answers(algorithm) ? std::span<const std::string_view>(of_rounds) : std::span<const std::string_view>();
}

std::span<const std::string_view> metrics_of_combined() { return of_combined; }

std::span<const std::string_view> metrics_of_earnings() {
  return std::span(of_rounds_with_critics).last<6>();
}

}  // namespace muster::spec
