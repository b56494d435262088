#include "job/train/task_settings.hpp"

#include <algorithm>

#include "spec/model/value_head_file.hpp"

namespace muster::job {
namespace {

wire::ShardingOptions sharding_of(const plan::Layout& layout) {
  if (layout.scheme != plan::Scheme::fsdp) return {};
  const bool grouped = layout.sharding == spec::ShardingStrategy::hybrid_shard;
  return {layout.sharding, grouped ? layout.shard_group : 1, layout.offload};
}

}  // namespace

wire::TrainTask task_of(const spec::RunSpec& spec, const plan::Plan& plan, const plan::Question& question,
                        const std::filesystem::path& model, const data::PreparedData& data, std::int64_t steps,
                        std::int64_t batch) {
  const auto& training = spec.training;
  wire::TrainTask task;
  task.model = model.string();
  task.random_weights = spec.model.init == spec::WeightSource::random;
  task.attention = spec.system.attn_impl;
  task.deterministic = spec.system.deterministic || training.deterministic;
  task.exact = training.deterministic;
  task.recompute = training.gradient_checkpointing;
  task.sharding = sharding_of(plan.layout);
  task.data = data.training.path.string();
  task.algorithm = training.algorithm;
  if (training.algorithm == spec::Algorithm::sft) task.combined = spec.sft.combined();
  task.preferences = spec.preference_options();
  task.reward_model = spec.reward_model_options();
  task.fresh_head = question.model->fresh_head;
  task.policy = spec.policy_options();
  task.critic = spec.critic_options();
  if (task.policy) task.reward = spec.reward_options();
  if (task.policy) task.environment = spec.environment_options();
  task.packing = training.packing;
  task.sequence_length = question.workload.sequence;
  task.steps = steps;
  task.batch_size = batch;
  task.micro_batch = plan.workload.micro_batch;
  task.loader_threads = training.dataloader_num_workers;
  task.pinned = training.dataloader_pin_memory;
  task.optimizer = {
      training.optimizer == spec::OptimizerKind::adamw_fused ? spec::OptimizerKind::adamw : training.optimizer,
      training.learning_rate,
      training.lr_scheduler,
      training.warmup_steps,
      training.decay_steps.value_or(std::max<std::int64_t>(steps / 10, 1)),
      training.weight_decay,
      training.adam_beta1,
      training.adam_beta2,
      training.adam_epsilon,
      training.momentum,
      training.max_grad_norm};
  if (data.evaluation) task.evaluation.data = data.evaluation->path.string();
  task.evaluation.every = training.eval_steps;
  task.save_every = training.save_steps;
  task.keep = training.save_total_limit;
  task.save_at_end = training.save_at_end;
  task.clear_cache_every = spec.system.clear_cache_interval;
  return task;
}

Result<std::optional<std::string>> find_value_head(const wire::TrainTask& task, const spec::ModelDescription& model) {
  std::vector<std::filesystem::path> folders;
  if (task.adapter) folders.emplace_back(*task.adapter);
  const auto files = spec::find_model(task.model, spec::model_search_from_environment());
  if (!files) return files.error();
  folders.push_back(std::filesystem::is_directory(*files) ? *files : files->parent_path());
  auto found = spec::find_value_head(folders, model);
  if (!found) return found.error();
  return *found ? std::optional((*found)->string()) : std::nullopt;
}

}  // namespace muster::job
