#include "job/train/round_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/count_of.hpp"
#include "job/train/model_flops.hpp"
#include "job/train/prompt_data.hpp"
#include "job/train/train.hpp"
#include "runs/run_format.hpp"

namespace muster::job {
namespace {

// The share that such work usually reaches of what a vendor states.
constexpr double usual_share_of_flops = 0.4;
constexpr double usual_share_of_bandwidth = 0.5;

std::optional<RoundSeconds> seconds_of(const TrainPlan& plan) {
  const plan::RankPlan& rank = plan.plan.ranks.front();
  const auto speed = rank.gpu ? gpu_speed(rank.gpu->name) : std::nullopt;
  if (!speed) return std::nullopt;
  const spec::PolicyOptions& policy = *plan.task().policy;
  const spec::ModelConfig& config = plan.question.model->config;
  const data::SampleCounts& counts = plan.data.training.counts;
  const auto prompt = static_cast<double>(counts.tokens) / static_cast<double>(std::max<std::int64_t>(counts.samples, 1));
  const auto most = static_cast<double>(policy.most_tokens);
  const double own = static_cast<double>(policy.answers) / static_cast<double>(plan.plan.layout.world);
  const auto side_by_side = static_cast<double>(plan.plan.side_by_side.value_or(1));
  // Every step of decoding reads the weights, and the keys and values of what was written so far.
  const double of_token = 4.0 * static_cast<double>(config.layers * config.kv_heads * config.head_size);
  const double read = 2.0 * static_cast<double>(plan.plan.parameters) + side_by_side * of_token * (prompt + most / 2);
  RoundSeconds seconds;
  seconds.sampling = std::max(own / side_by_side, 1.0) * most * read / (speed->bandwidth * usual_share_of_bandwidth);
  const std::int64_t longest = plan.task().sequence_length;
  double flops = flops_per_token(config, plan.plan.parameters, longest);
  if (const auto& critic = plan.question.critic)
    flops += flops_per_token(critic->config, critic->shape.parameter_count(), longest);
  const double tokens = own * (prompt + most) * static_cast<double>(policy.iterations);
  seconds.training = flops * tokens / (speed->flops * usual_share_of_flops);
  return seconds;
}

}  // namespace

RoundPlan round_plan(const TrainPlan& plan) {
  const wire::TrainTask& task = plan.task();
  const spec::PolicyOptions& policy = *task.policy;
  const std::int64_t updates = updates_of_round(policy, task.batch_size);
  return {.prompts = policy.answers / policy.group,
          .group = policy.group,
          .most_tokens = policy.most_tokens,
          .side_by_side = task.sampled_at_once,
          .updates = updates,
          .rounds = (task.steps + updates - 1) / updates,
          .off_by = policy.off_by,
          .seconds = seconds_of(plan)};
}

std::string round_words(const RoundPlan& plan) {
  std::string text =
      fmt::format("rounds of {} × {}, each of up to {}, {} written side by side on a rank; {} with each round's, {} in all",
                  count_of(plan.prompts, "prompt"), count_of(plan.group, "answer"), count_of(plan.most_tokens, "token"),
                  plan.side_by_side, count_of(plan.updates, "update"), count_of(plan.rounds, "round"));
  if (plan.off_by > 0) text += "; each drawn before the one before it is trained on";
  if (plan.seconds)
    text += fmt::format("; a round takes up to about {}, {} of it sampling, as a guess",
                        runs::span_words(std::ceil(plan.seconds->sampling + plan.seconds->training)),
                        runs::span_words(std::ceil(plan.seconds->sampling)));
  return text;
}

}  // namespace muster::job
