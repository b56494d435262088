#include "spec/run_spec.hpp"

namespace muster::spec {
namespace {

// How answers are drawn, whatever is learnt from them.
PolicyOptions drawing_options(const GenerationSpec& generation) {
  PolicyOptions options;
  options.most_tokens = generation.max_new_tokens;
  options.temperature = generation.temperature;
  options.top_p = generation.top_p;
  options.top_k = generation.top_k;
  options.min_p = generation.min_p;
  options.stop_tokens = generation.stop_tokens;
  return options;
}

// What two algorithms have under the same names.
template <class Section>
PolicyOptions common_options(const Section& section, const TrainingSpec& training, const GenerationSpec& generation) {
  PolicyOptions options = drawing_options(generation);
  options.group = section.num_generations;
  options.answers = training.num_rollouts_per_iteration.value_or(usual_prompts_of_round * options.group);
  options.iterations = section.num_iterations;
  options.off_by = training.off_by;
  options.clip_low = section.epsilon;
  options.clip_high = section.epsilon_high.value_or(section.epsilon);
  options.beta = section.beta;
  options.masks_cut = section.mask_truncated_completions;
  return options;
}

PolicyOptions ppo_options(const PpoSpec& ppo, const TrainingSpec& training, const GenerationSpec& generation) {
  PolicyOptions options = drawing_options(generation);
  options.group = ppo.num_generations;
  options.answers = training.num_rollouts_per_iteration.value_or(
      (usual_answers_of_round + options.group - 1) / options.group * options.group);
  options.iterations = ppo.num_ppo_epochs;
  options.clip_low = options.clip_high = ppo.clip_range;
  options.scale = RewardScale::none;
  options.beta = ppo.kl_coef;
  return options;
}

}  // namespace

std::optional<PolicyOptions> RunSpec::policy_options() const {
  if (training.algorithm == Algorithm::grpo) {
    PolicyOptions options = common_options(grpo, training, generation);
    options.draws = grpo.max_draws;
    options.loss = grpo.loss_type;
    options.level = grpo.importance_sampling_level;
    options.ratio_cap = grpo.delta;
    options.gate_above = grpo.sapo_temperature_pos;
    options.gate_below = grpo.sapo_temperature_neg;
    options.scale = grpo.normalize_rewards ? grpo.scale_rewards : RewardScale::none;
    options.scale_floor = grpo.scale_epsilon;
    return options;
  }
  if (training.algorithm == Algorithm::rloo) {
    PolicyOptions options = common_options(rloo, training, generation);
    options.loss = PolicyLoss::grpo;  // a mean over answers
    options.level = RatioLevel::product;
    options.scale = RewardScale::none;
    options.leave_one_out = true;
    return options;
  }
  if (training.algorithm == Algorithm::ppo) return ppo_options(ppo, training, generation);
  return std::nullopt;
}

std::optional<CriticOptions> RunSpec::critic_options() const {
  if (training.algorithm != Algorithm::ppo) return std::nullopt;
  return CriticOptions{.discount = ppo.gamma,
                       .smoothing = ppo.gae_lambda,
                       .whitens = ppo.normalize_advantages,
                       .clip = ppo.clip_range_vf,
                       .value_weight = ppo.value_loss_coef,
                       .entropy_weight = ppo.entropy_coef,
                       .divergence = ppo.kl_estimator,
                       .divergence_target = ppo.adaptive_kl_target,
                       .divergence_horizon = ppo.adaptive_kl_horizon,
                       .missing_end_penalty = ppo.missing_eos_penalty,
                       .most_change = ppo.target_kl};
}

}  // namespace muster::spec
