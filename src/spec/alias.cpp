#include "spec/alias.hpp"

#include <algorithm>
#include <array>

namespace muster::spec {
namespace {

constexpr std::array alias_table{
    Alias{"experiment_name", "experiment.name"},
    Alias{"output_dir", "experiment.output"},
    Alias{"experiment.output_dir", "experiment.output"},
    Alias{"training.output_dir", "experiment.output"},
    Alias{"resume_from", "experiment.resume"},
    Alias{"seed", "experiment.seed"},
    Alias{"rounds_of_training", "experiment.rounds_of_training"},
    Alias{"run", "sweep.name"},
    Alias{"gpu_list", "distributed.gpu_ids"},
    Alias{"gpu_ids", "distributed.gpu_ids"},
    Alias{"num_gpus", "distributed.num_gpus"},
    Alias{"use_multi_gpu", "distributed.enabled"},
    Alias{"backend", "distributed.backend"},
    Alias{"timeout_minutes", "distributed.timeout_minutes"},
    Alias{"tensor_parallel", "distributed.tensor_parallel"},
    Alias{"pipeline_parallel", "distributed.pipeline_parallel"},
    Alias{"find_unused_parameters", "distributed.find_unused_parameters"},
    Alias{"master_port", "distributed.master_port"},
    Alias{"fsdp_cpu_offload", "distributed.fsdp_cpu_offload"},
    Alias{"model_name", "model.path"},
    Alias{"model.model_name_or_path", "model.path"},
    Alias{"model.tokenizer_name_or_path", "model.tokenizer"},
    Alias{"torch_dtype", "model.dtype"},
    Alias{"model.torch_dtype", "model.dtype"},
    Alias{"dtype", "model.dtype"},
    Alias{"system.dtype", "model.dtype"},
    Alias{"device_map", "model.device_map"},
    Alias{"auto_device_map", "model.auto_device_map"},
    Alias{"max_memory", "model.max_memory"},
    Alias{"load_in_8bit", "model.load_in_8bit"},
    Alias{"load_in_4bit", "model.load_in_4bit"},
    Alias{"bnb_4bit_quant_type", "model.bnb_4bit_quant_type"},
    Alias{"bnb_4bit_use_double_quant", "model.bnb_4bit_use_double_quant"},
    Alias{"bnb_4bit_compute_dtype", "model.bnb_4bit_compute_dtype"},
    Alias{"llm_int8_skip_modules", "model.llm_int8_skip_modules"},
    Alias{"llm_int8_enable_fp32_cpu_offload", "model.llm_int8_enable_fp32_cpu_offload"},
    Alias{"use_lora", "model.use_lora"},
    Alias{"lora_r", "model.lora_r"},
    Alias{"lora_alpha", "model.lora_alpha"},
    Alias{"lora_dropout", "model.lora_dropout"},
    Alias{"lora_target_modules", "model.lora_target_modules"},
    Alias{"use_rslora", "model.use_rslora"},
    Alias{"use_dora", "model.use_dora"},
    Alias{"modules_to_save", "model.modules_to_save"},
    Alias{"max_seq_length", "training.sequence_length"},
    Alias{"per_device_train_batch_size", "training.micro_batch_size"},
    Alias{"training.per_device_train_batch_size", "training.micro_batch_size"},
    Alias{"gradient_accumulation_steps", "training.gradient_accumulation_steps"},
    Alias{"gradient_checkpointing", "training.gradient_checkpointing"},
    Alias{"data", "data.path"},
    Alias{"use_gradient_checkpointing", "training.gradient_checkpointing"},
    Alias{"warmup_steps", "training.warmup_steps"},
    Alias{"max_steps", "training.max_steps"},
    Alias{"learning_rate", "training.learning_rate"},
    Alias{"logging_steps", "training.logging_steps"},
    Alias{"fp16", "training.fp16"},
    Alias{"bf16", "training.bf16"},
    Alias{"dataloader_num_workers", "training.dataloader_num_workers"},
    Alias{"dataloader_pin_memory", "training.dataloader_pin_memory"},
    Alias{"grpo.group_size", "grpo.num_generations"},
    Alias{"grpo.num_grpo_epochs", "grpo.num_iterations"},
    Alias{"grpo.clip_range", "grpo.epsilon"},
    Alias{"grpo.reward_normalization", "grpo.scale_rewards"},
    Alias{"grpo.temperature", "generation.temperature"},
    Alias{"training.episodes_per_iteration", "training.num_rollouts_per_iteration"},
    Alias{"policy_env.env_type", "environment.type"},
    Alias{"policy_env.max_attempts", "environment.max_attempts"},
    Alias{"policy_env.timeout", "environment.timeout"},
    Alias{"policy_env.reward_scale", "reward.scale"},
    Alias{"policy_env.reward_bias", "reward.bias"},
    Alias{"policy_env.reward_clip", "reward.clip"},
    Alias{"trainer.total_timesteps", "training.total_timesteps"},
    Alias{"reward_scale", "reward.scale"},
    Alias{"reward_bias", "reward.bias"},
    Alias{"reward_clip", "reward.clip"},
    Alias{"use_parallel_execution", "system.use_parallel_execution"},
};

constexpr std::array refused_table{
    RefusedKey{"num_samples",
               "more samples do not make more jobs to spread over GPUs; name more algorithms, families or data sets. "
               "Answers per prompt are generation.samples"},
    RefusedKey{"model.bnb_4bit_quant_storage",
               "it decides how PyTorch's FSDP sees the codes; muster gathers them as bytes, so leave it out"},
    RefusedKey{"model.llm_int8_threshold",
               "activations are not rounded to 8 bits, so that there are no outliers to keep apart; leave it out"},
    RefusedKey{"training.auto_scale_lr", "the result would depend on the number of GPUs; set training.learning_rate"},
};

constexpr std::array reserved_table{
    ReservedVariable{"MUSTER_ATTEMPT", "set by muster for the jobs of its queue: which attempt this is, from 1 on"},
    ReservedVariable{"MUSTER_CACHE", "folder of prepared data and of built-in models; not set: ~/.cache/muster"},
    ReservedVariable{"MUSTER_CONFIG", "the configuration file, as --config"},
    ReservedVariable{"MUSTER_CONTROL", "set by muster for its workers: where they reach the program that started them"},
    ReservedVariable{"MUSTER_GPUS", "inventory file that stands for this machine's GPUs, as --gpus-from"},
    ReservedVariable{"MUSTER_HEARTBEAT_FILE",
                     "set by muster for the jobs of its queue: a touch of it is a sign of life"},
    ReservedVariable{"MUSTER_JOB", "set by muster for the jobs of its queue: the job's id"},
    ReservedVariable{"MUSTER_KEEPER", "set by muster for the programs it starts: the processes that keep them"},
    ReservedVariable{"MUSTER_LEASE", "set by muster for the programs it starts: the lease they run under"},
    ReservedVariable{"MUSTER_LEASE_DIR", "folder of the GPU leases, shared by all users of the machine"},
    ReservedVariable{"MUSTER_MODELS", "folder of the models that muster model get has fetched"},
    ReservedVariable{"MUSTER_NVML_LIBRARY", "path of the NVIDIA management library, where it is not found by itself"},
    ReservedVariable{"MUSTER_PHASE", "set by muster sweep for a trial's commands: train or evaluate"},
    ReservedVariable{"MUSTER_PROGRAM", "path of muster, where the Python package does not find it by itself"},
    ReservedVariable{"MUSTER_PYTHON", "Python interpreter that set-up and muster model get use"},
    ReservedVariable{"MUSTER_QUEUE_GRACE", "what muster stop gives a job between SIGTERM and SIGKILL"},
    ReservedVariable{"MUSTER_QUEUE_IDLE", "how long the queue's conductor stays when there is nothing to do"},
    ReservedVariable{"MUSTER_QUEUE_KEPT", "how many settled jobs stay in the queue's journal"},
    ReservedVariable{"MUSTER_QUEUE_LOOK", "how often the queue's conductor looks at the GPUs"},
    ReservedVariable{"MUSTER_RDZV_SECRET", "muster launch on several hosts: the secret they share, in place of a file"},
    ReservedVariable{"MUSTER_REPORT", "set by muster sweep for a trial: the file that it may report to on its way"},
    ReservedVariable{"MUSTER_RUN_FOLDER", "set by muster sweep for a trial's evaluation: the run of its training"},
    ReservedVariable{"MUSTER_SETUP", "never: set-up installs nothing and says what is missing"},
    ReservedVariable{"MUSTER_SETUP_VERBOSE", "1: set-up shows everything its steps print"},
    ReservedVariable{"MUSTER_STATE", "folder of the queue; not set: ~/.local/state/muster"},
    ReservedVariable{"MUSTER_SWEEP", "set by muster sweep for a trial: the sweep's name"},
    ReservedVariable{"MUSTER_TRIAL", "set by muster sweep for a trial: its id"},
    ReservedVariable{"MUSTER_TRIAL_FOLDER", "set by muster sweep for a trial: the folder that is its own"},
    ReservedVariable{"MUSTER_WORKER", "path of muster-worker, where it is not found by itself"},
    ReservedVariable{"GPU_LIST", "another spelling of MUSTER_DISTRIBUTED_GPU_IDS"},
};

using Values = ShortOption::Values;
constexpr std::array short_table{
    ShortOption{"--model", "model.path", Values::one, 'm'},
    ShortOption{"--adapter", "model.adapters", Values::one_each},
    ShortOption{"--data", "data.path", Values::one, '\0', true},
    ShortOption{"--lr", "training.learning_rate", Values::one, '\0', true},
    ShortOption{"--epochs", "training.num_epochs", Values::one, '\0', true},
    ShortOption{"--num-gpus", "distributed.num_gpus", Values::one, 'n'},
    ShortOption{"--gpu-ids", "distributed.gpu_ids", Values::several},
    ShortOption{"--device", "distributed.device"},
    ShortOption{"--ranks", "distributed.ranks"},
    ShortOption{"--strategy", "distributed.strategy"},
    ShortOption{"--nnodes", "distributed.num_nodes"},
    ShortOption{"--node-rank", "distributed.node_rank"},
    ShortOption{"--master-addr", "distributed.master_addr"},
    ShortOption{"--master-port", "distributed.master_port"},
    ShortOption{"--seed", "experiment.seed"},
    ShortOption{"--dtype", "model.dtype"},
    ShortOption{"--output", "experiment.output"},
    ShortOption{"--name", "experiment.name"},
    ShortOption{"--resume", "experiment.resume"},
};

}  // namespace

std::span<const Alias> aliases() { return alias_table; }

std::string_view canonical_key(std::string_view key) {
  const auto found = std::ranges::find(alias_table, key, &Alias::spelling);
  return found == alias_table.end() ? key : found->key;
}

std::span<const RefusedKey> refused_keys() { return refused_table; }
std::span<const ReservedVariable> reserved_variables() { return reserved_table; }
std::span<const ShortOption> short_options() { return short_table; }

}  // namespace muster::spec
