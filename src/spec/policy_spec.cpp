#include "spec/run_spec.hpp"

namespace muster::spec {
namespace {

// What both have under the same names.
template <class Section>
PolicyOptions common_options(const Section& section, const TrainingSpec& training, const GenerationSpec& generation) {
  PolicyOptions options;
  options.group = section.num_generations;
  options.answers = training.num_rollouts_per_iteration.value_or(usual_prompts_of_round * options.group);
  options.iterations = section.num_iterations;
  options.off_by = training.off_by;
  options.clip_low = section.epsilon;
  options.clip_high = section.epsilon_high.value_or(section.epsilon);
  options.beta = section.beta;
  options.masks_cut = section.mask_truncated_completions;
  options.most_tokens = generation.max_new_tokens;
  options.temperature = generation.temperature;
  options.top_p = generation.top_p;
  options.top_k = generation.top_k;
  options.min_p = generation.min_p;
  options.stop_tokens = generation.stop_tokens;
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
  return std::nullopt;
}

}  // namespace muster::spec
