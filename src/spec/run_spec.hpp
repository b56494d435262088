// What a user asks for. Each setting is named once, in its section's describe(): parsing, printing, checking, --help
// and docs/configuration.md are visitors over it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/adapter_options.hpp"
#include "spec/capability.hpp"
#include "spec/environment_spec.hpp"
#include "spec/policy_spec.hpp"
#include "spec/preference_spec.hpp"
#include "spec/reward_model_spec.hpp"
#include "spec/reward_spec.hpp"
#include "spec/sft_spec.hpp"
#include "spec/trained_answers.hpp"
#include "spec/values.hpp"
#include "spec/weight_options.hpp"

namespace muster::spec {

struct ExperimentSpec {
  std::optional<std::string> name;
  std::optional<std::string> description;
  std::vector<std::string> tags;
  std::string output = "runs";
  std::int64_t seed = 42;
  std::optional<std::string> resume;
  std::int64_t rounds_of_training = 1;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("name", &ExperimentSpec::name, "name of the run; its folder begins with it");
    field("description", &ExperimentSpec::description, "a sentence kept with the run");
    field("tags", &ExperimentSpec::tags, "words kept with the run");
    field("output", &ExperimentSpec::output, "folder that receives the run's folder");
    field("seed", &ExperimentSpec::seed, "every random choice follows from it").at_least(0);
    field("resume", &ExperimentSpec::resume, "auto, or the folder of the run or checkpoint to go on from");
    field("rounds_of_training", &ExperimentSpec::rounds_of_training, "how often data is collected and trained on")
        .at_least(1)
        .needs(Capability::experiments);
  }
};

struct DistributedSpec {
  std::optional<bool> enabled;
  Device device = Device::automatic;
  std::optional<std::int64_t> num_gpus;
  std::vector<std::string> gpu_ids;
  std::optional<std::int64_t> ranks;
  Strategy strategy = Strategy::automatic;
  Backend backend = Backend::automatic;
  std::int64_t num_nodes = 1;
  std::int64_t node_rank = 0;
  std::optional<std::string> master_addr;
  std::optional<std::int64_t> master_port;
  std::int64_t timeout_minutes = 30;
  ShardingStrategy fsdp_sharding_strategy = ShardingStrategy::full_shard;
  bool fsdp_cpu_offload = false;
  std::optional<std::int64_t> fsdp_group_size;
  std::optional<std::int64_t> zero_stage;
  std::optional<std::string> deepspeed_config;
  ParallelDegree tensor_parallel;
  ParallelDegree pipeline_parallel;
  bool find_unused_parameters = false;
  std::int64_t max_restarts = 3;
  std::optional<std::int64_t> watchdog_seconds;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("enabled", &DistributedSpec::enabled, "false: one process. Not set: as many as the GPUs ask for");
    field("device", &DistributedSpec::device, "what to compute on; auto takes GPUs where there are any");
    field("num_gpus", &DistributedSpec::num_gpus, "how many GPUs; not set: all that are visible").at_least(1);
    field("gpu_ids", &DistributedSpec::gpu_ids,
          "which GPUs, by their number within CUDA_VISIBLE_DEVICES or by UUID; the order counts");
    field("ranks", &DistributedSpec::ranks, "processes: CPU ranks, or several on one GPU").at_least(1);
    field("strategy", &DistributedSpec::strategy, "how the model is spread over the ranks")
        .value_needs("tensor", Capability::tensor_parallelism)
        .value_needs("pipeline", Capability::pipeline_parallelism)
        .value_needs("deepspeed", Capability::deepspeed);
    field("backend", &DistributedSpec::backend, "library that carries the collectives")
        .value_needs("mpi", Capability::mpi);
    field("num_nodes", &DistributedSpec::num_nodes, "hosts").at_least(1).needs(Capability::several_hosts);
    field("node_rank", &DistributedSpec::node_rank, "which of the hosts this is, from 0")
        .at_least(0)
        .needs(Capability::several_hosts);
    field("master_addr", &DistributedSpec::master_addr, "address of host 0; not set: this host");
    field("master_port", &DistributedSpec::master_port,
          "port on host 0; not set: a free one, or 29500 for several hosts")
        .at_least(1)
        .at_most(65535);
    field("timeout_minutes", &DistributedSpec::timeout_minutes, "how long a collective waits for a missing rank")
        .in("minutes")
        .at_least(1);
    field("fsdp_sharding_strategy", &DistributedSpec::fsdp_sharding_strategy, "what FSDP shards");
    field("fsdp_cpu_offload", &DistributedSpec::fsdp_cpu_offload, "keep FSDP's shards in host memory");
    field("fsdp_group_size", &DistributedSpec::fsdp_group_size,
          "hybrid_shard: consecutive ranks that hold one copy together; not set: those of one host")
        .in("ranks")
        .at_least(2);
    field("zero_stage", &DistributedSpec::zero_stage, "DeepSpeed's stage; with another strategy it changes nothing")
        .at_least(0)
        .at_most(3);
    field("deepspeed_config", &DistributedSpec::deepspeed_config, "DeepSpeed's own configuration file")
        .needs(Capability::deepspeed);
    field("tensor_parallel", &DistributedSpec::tensor_parallel, "GPUs that share each matrix")
        .needs(Capability::tensor_parallelism);
    field("pipeline_parallel", &DistributedSpec::pipeline_parallel, "GPUs that share the layers")
        .needs(Capability::pipeline_parallelism);
    field("find_unused_parameters", &DistributedSpec::find_unused_parameters, "expect parameters that get no gradient")
        .needs(Capability::training);
    field("max_restarts", &DistributedSpec::max_restarts,
          "how often a training run that lost a rank is resumed from its last checkpoint")
        .at_least(0);
    field("watchdog_seconds", &DistributedSpec::watchdog_seconds,
          "a run without a step for so long is taken for stuck; not set: timeout_minutes")
        .in("seconds")
        .at_least(1);
  }
};

struct ModelSpec {
  std::optional<std::string> path;
  std::vector<std::string> adapter_folders;
  std::optional<std::string> tokenizer;
  WeightSource init = WeightSource::checkpoint;
  DataType dtype = DataType::automatic;
  std::optional<DeviceMap> device_map;
  bool auto_device_map = false;
  DeviceLimits max_memory;
  bool load_in_8bit = false;
  bool load_in_4bit = false;
  FourBitCode bnb_4bit_quant_type = FourBitCode::nf4;
  bool bnb_4bit_use_double_quant = false;
  DataType bnb_4bit_compute_dtype = DataType::automatic;
  std::optional<std::vector<std::string>> llm_int8_skip_modules;
  bool llm_int8_enable_fp32_cpu_offload = false;
  bool use_lora = false;
  std::int64_t lora_r = 8;
  double lora_alpha = 16;
  double lora_dropout = 0.05;
  std::vector<std::string> lora_target_modules;
  std::vector<std::string> lora_exclude_modules;
  bool use_rslora = false;
  bool use_dora = false;
  std::vector<std::string> modules_to_save;

  // How the weights of linear layers are held, and what is trained beside them; absent: as they are, and nothing. Of
  // settings without contradictions (find_contradictions).
  std::optional<WeightPacking> packing() const;
  std::optional<WeightOptions> weight_options() const;
  std::optional<AdapterOptions> adapters() const;
  // model.dtype, or what bnb_4bit_compute_dtype says where that leaves it open.
  DataType computed_type() const;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("path", &ModelSpec::path, "folder, GGUF file, or name of a model in the local Hugging Face cache");
    field("adapters", &ModelSpec::adapter_folders,
          "folders of low-rank adapters for the model, as PEFT saves them; in training the one to begin with")
        .needs(Capability::low_rank_adapters);
    field("tokenizer", &ModelSpec::tokenizer, "folder of the tokenizer; not set: the model's own");
    field("init", &ModelSpec::init,
          "where the weights come from; random builds from a bare config.json, to measure speed and memory");
    field("dtype", &ModelSpec::dtype,
          "type of the weights; auto: bfloat16 where the device has it, else float32; in a plan for transformers, the "
          "checkpoint's");
    field("device_map", &ModelSpec::device_map,
          "how the model's modules are laid over devices: a rule, or a table of module: device");
    field("auto_device_map", &ModelSpec::auto_device_map, "the same as device_map: auto");
    field("max_memory", &ModelSpec::max_memory, "most memory per device, as in {0: 10GB, 1: 8GiB, cpu: 30GiB}");
    describe_packing(field);
    describe_adapters(field);
  }

  template <class Visitor>
  static void describe_packing(Visitor& field) {
    using enum Capability;
    field("load_in_8bit", &ModelSpec::load_in_8bit,
          "hold the weights of linear layers in 8 bits, a scale for each row; the name of a model may say so: MODEL-8bit")
        .needs(quantized_loading);
    field("load_in_4bit", &ModelSpec::load_in_4bit,
          "hold the weights of linear layers in 4 bits, a scale for every 64; the name of a model may say so: MODEL-4bit")
        .needs(quantized_loading);
    field("bnb_4bit_quant_type", &ModelSpec::bnb_4bit_quant_type,
          "the 16 numbers that 4 bits stand for: nf4 suits weights and is what muster takes; bitsandbytes takes fp4 where "
          "nothing is said")
        .needs(quantized_loading);
    field("bnb_4bit_use_double_quant", &ModelSpec::bnb_4bit_use_double_quant,
          "hold the scales of 4-bit weights in 8 bits as well: 0.52 bytes a weight on a GPU in the place of 0.56")
        .needs(quantized_loading);
    field("bnb_4bit_compute_dtype", &ModelSpec::bnb_4bit_compute_dtype,
          "type that 4-bit weights are computed in; auto: model.dtype, from which it may not differ")
        .needs(quantized_loading);
    field("llm_int8_skip_modules", &ModelSpec::llm_int8_skip_modules,
          "modules that 8 and 4 bits leave as they are: a name, the beginning or the end of a path, or a pattern; the "
          "embedding, the norms and the output head stay in any case")
        .needs(quantized_loading);
    field("llm_int8_enable_fp32_cpu_offload", &ModelSpec::llm_int8_enable_fp32_cpu_offload,
          "in a plan for transformers: let a quantised model's modules lie on cpu and disk, where they stay as they are");
  }

  template <class Visitor>
  static void describe_adapters(Visitor& field) {
    using enum Capability;
    field("use_lora", &ModelSpec::use_lora, "train low-rank adapters instead of the weights").needs(low_rank_adapters);
    field("lora_r", &ModelSpec::lora_r, "rank of the adapters").at_least(1).at_most(65536).needs(low_rank_adapters);
    field("lora_alpha", &ModelSpec::lora_alpha, "adapters are scaled by lora_alpha / lora_r")
        .above(0)
        .needs(low_rank_adapters);
    field("lora_dropout", &ModelSpec::lora_dropout, "share of adapter inputs dropped in training")
        .at_least(0)
        .below(1)
        .needs(low_rank_adapters);
    field("lora_target_modules", &ModelSpec::lora_target_modules,
          "modules that get adapters: names (q_proj), or one pattern that matches whole paths; empty or all-linear: every "
          "linear layer but the output head, where PEFT would take those it knows of the family (Llama: q_proj, v_proj)")
        .needs(low_rank_adapters);
    field("lora_exclude_modules", &ModelSpec::lora_exclude_modules,
          "modules of these that get none: names, or one pattern")
        .needs(low_rank_adapters);
    field("use_rslora", &ModelSpec::use_rslora, "scale adapters by lora_alpha / √lora_r instead").needs(low_rank_adapters);
    field("use_dora", &ModelSpec::use_dora, "train the length of each row of an adapted weight as well (DoRA)")
        .needs(low_rank_adapters);
    field("modules_to_save", &ModelSpec::modules_to_save,
          "modules that are trained as a whole and saved with the adapters, as in [lm_head]")
        .needs(low_rank_adapters);
  }
};

// Prompts of a round of sampling, where nothing is said.
inline constexpr std::int64_t usual_prompts_of_round = 16;
inline constexpr std::int64_t usual_answers_of_round = 128;  // where they are not compared with each other

struct TrainingSpec {
  Algorithm algorithm = Algorithm::sft;
  std::optional<std::int64_t> max_steps;
  std::optional<std::int64_t> num_epochs;
  std::optional<std::int64_t> num_iterations;
  std::optional<std::int64_t> total_timesteps;
  std::optional<std::int64_t> num_rollouts_per_iteration;
  std::int64_t off_by = 0;
  std::optional<std::int64_t> max_episode_length;
  std::optional<std::int64_t> batch_size;
  std::optional<std::int64_t> micro_batch_size;
  std::optional<std::int64_t> gradient_accumulation_steps;
  std::int64_t sequence_length = 1024;
  double learning_rate = 2e-5;
  double weight_decay = 0.01;
  std::int64_t warmup_steps = 0;
  std::optional<std::int64_t> decay_steps;
  RateSchedule lr_scheduler = RateSchedule::linear;
  double max_grad_norm = 1.0;
  OptimizerKind optimizer = OptimizerKind::adamw;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double momentum = 0.9;
  MixedPrecision mixed_precision = MixedPrecision::automatic;
  bool fp16 = false;
  bool bf16 = false;
  Recomputation gradient_checkpointing = Recomputation::none;
  bool packing = false;
  bool deterministic = false;
  std::optional<std::int64_t> save_steps;
  std::optional<std::int64_t> save_total_limit;
  FinalSave save_at_end = FinalSave::all;
  std::optional<std::int64_t> save_every;
  std::optional<std::int64_t> eval_steps;
  std::optional<std::int64_t> eval_every;
  std::int64_t eval_episodes = 10;
  std::int64_t logging_steps = 1;
  std::int64_t dataloader_num_workers = 2;
  bool dataloader_pin_memory = true;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("algorithm", &TrainingSpec::algorithm, "what to train by")
        .value_needs("pita", Capability::value_guidance)
        .value_needs("qsharp", Capability::value_guidance);
    field("max_steps", &TrainingSpec::max_steps, "optimizer steps; not set: as num_epochs says").at_least(1);
    field("num_epochs", &TrainingSpec::num_epochs, "passes over the data").at_least(1);
    field("num_iterations", &TrainingSpec::num_iterations,
          "rounds of sampling and of training on what was sampled; where nothing is sampled the same as num_epochs")
        .at_least(1);
    field("total_timesteps", &TrainingSpec::total_timesteps, "environment steps of a reinforcement-learning run")
        .at_least(1)
        .needs(Capability::environments);
    field("num_rollouts_per_iteration", &TrainingSpec::num_rollouts_per_iteration,
          "answers that are sampled in a round, all prompts together; not set: those to 16 prompts, of ppo 128")
        .in("answers")
        .at_least(2);
    field("off_by", &TrainingSpec::off_by,
          "rounds that answers are drawn before they are trained on: 0, or 1: a round is drawn before the one before it is "
          "trained on")
        .in("rounds")
        .at_least(0)
        .at_most(1);
    field("max_episode_length", &TrainingSpec::max_episode_length,
          "of environments: answers that an episode has at most; not set: 8")
        .in("answers")
        .at_least(1);
    field("batch_size", &TrainingSpec::batch_size,
          "sequences per optimizer step, over all ranks; of preferences pairs of them, here and in passes; of sampled answers "
          "all of a round, where it is not set")
        .in("sequences")
        .at_least(1);
    field("micro_batch_size", &TrainingSpec::micro_batch_size,
          "sequences per rank and forward pass; not set: what the plan says fits")
        .in("sequences")
        .at_least(1);
    field("gradient_accumulation_steps", &TrainingSpec::gradient_accumulation_steps,
          "forward passes per optimizer step; batch_size = micro_batch_size × this × ranks")
        .at_least(1);
    field("sequence_length", &TrainingSpec::sequence_length, "longest sequence").in("tokens").at_least(1);
    field("learning_rate", &TrainingSpec::learning_rate, "peak rate, after warm-up").above(0);
    field("weight_decay", &TrainingSpec::weight_decay, "AdamW's decay").at_least(0);
    field("warmup_steps", &TrainingSpec::warmup_steps, "steps over which the rate rises").at_least(0);
    field("decay_steps", &TrainingSpec::decay_steps,
          "steps over which wsd lowers the rate at the end; not set: a tenth of all")
        .at_least(1);
    field("lr_scheduler", &TrainingSpec::lr_scheduler, "how the rate falls after warm-up");
    field("max_grad_norm", &TrainingSpec::max_grad_norm, "gradients are clipped to this norm").above(0);
    field("optimizer", &TrainingSpec::optimizer,
          "what steps the weights; adamw_8bit: AdamW whose moments are kept in 8 bits");
    field("adam_beta1", &TrainingSpec::adam_beta1, "AdamW's memory of gradients").at_least(0).at_most(1);
    field("adam_beta2", &TrainingSpec::adam_beta2, "AdamW's memory of squared gradients").at_least(0).at_most(1);
    field("adam_epsilon", &TrainingSpec::adam_epsilon, "AdamW's smallest divisor").above(0);
    field("momentum", &TrainingSpec::momentum, "sgd_momentum's memory of gradients").at_least(0).at_most(1);
    field("mixed_precision", &TrainingSpec::mixed_precision,
          "type that is computed in while weights are kept in float32; auto: bf16 unless model.dtype is set; no: "
          "everything in float32, or in bfloat16 where model.dtype says that");
    field("fp16", &TrainingSpec::fp16, "compute in float16, weights kept in float32");
    field("bf16", &TrainingSpec::bf16, "compute in bfloat16, weights kept in float32");
    field("gradient_checkpointing", &TrainingSpec::gradient_checkpointing,
          "recompute activations instead of keeping them: all of a block, or what costs no product (selective)");
    field("packing", &TrainingSpec::packing,
          "fill sequences of sequence_length tokens with several samples side by side; batch sizes then count those");
    field("deterministic", &TrainingSpec::deterministic,
          "sums of gradients are exact, so that their bits do not depend on ranks and passes");
    field("save_steps", &TrainingSpec::save_steps,
          "steps between checkpoints; not set: only at the end, as save_at_end says")
        .at_least(1);
    field("save_total_limit", &TrainingSpec::save_total_limit, "checkpoints that are kept; not set: all").at_least(1);
    field(
        "save_at_end", &TrainingSpec::save_at_end,
        "what a finished run leaves: a checkpoint and the model (all), the model, or only metrics and logs (nothing), to "
        "measure speed and memory");
    field("save_every", &TrainingSpec::save_every,
          "the same in rounds of sampling, or, where nothing is sampled, in passes over the data")
        .at_least(1);
    field("eval_steps", &TrainingSpec::eval_steps, "steps between evaluations; not set: only at the end").at_least(1);
    field("eval_every", &TrainingSpec::eval_every,
          "the same in rounds of sampling, or, where nothing is sampled, in passes over the data")
        .at_least(1);
    field("eval_episodes", &TrainingSpec::eval_episodes,
          "of environment.evaluations: episodes that are played in each of them")
        .in("episodes")
        .at_least(1);
    field("logging_steps", &TrainingSpec::logging_steps, "steps between printed lines").at_least(1);
    field("dataloader_num_workers", &TrainingSpec::dataloader_num_workers, "threads that prepare batches").at_least(0);
    field("dataloader_pin_memory", &TrainingSpec::dataloader_pin_memory, "hand batches to the GPU from pinned memory");
  }
};

struct GenerationSpec {
  std::int64_t max_new_tokens = 256;
  double temperature = 1.0;
  double top_p = 1.0;
  std::int64_t top_k = 0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  ExactTexts stop;
  std::vector<std::int64_t> stop_tokens;
  std::int64_t samples = 1;
  std::int64_t sequence_length = 2048;
  std::optional<std::int64_t> batch_size;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("max_new_tokens", &GenerationSpec::max_new_tokens, "most tokens per answer").in("tokens").at_least(1);
    field("temperature", &GenerationSpec::temperature, "0 takes the most likely token").at_least(0);
    field("top_p", &GenerationSpec::top_p, "draw from the most likely tokens of this total probability")
        .above(0)
        .at_most(1);
    field("top_k", &GenerationSpec::top_k, "draw from this many most likely tokens; 0: all").at_least(0);
    field("min_p", &GenerationSpec::min_p, "draw from tokens at least this share as likely as the most likely; 0: all")
        .at_least(0)
        .at_most(1);
    field("repetition_penalty", &GenerationSpec::repetition_penalty, "above 1 makes repeated tokens less likely")
        .above(0);
    field("stop", &GenerationSpec::stop, "texts that end an answer before themselves");
    field("stop_tokens", &GenerationSpec::stop_tokens, "ids of tokens that end an answer, beside the model's own");
    field("sequence_length", &GenerationSpec::sequence_length, "longest sequence, prompt and answer together")
        .in("tokens")
        .at_least(1);
    field("samples", &GenerationSpec::samples, "answers per prompt").at_least(1);
    field("batch_size", &GenerationSpec::batch_size,
          "sequences generated at once per GPU; not set: what the plan says fits")
        .in("sequences")
        .at_least(1);
  }
};

struct DataSpec {
  std::optional<std::string> path;
  std::optional<std::string> eval_path;
  std::vector<std::string> operations;
  std::int64_t digits = 2;
  double held_out = 0.15;
  TrainedAnswers train_on = TrainedAnswers::all;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("path", &DataSpec::path, "file or folder of the training data, or builtin:arithmetic");
    field("eval_path", &DataSpec::eval_path, "file or folder of data that is only evaluated on");
    field("operations", &DataSpec::operations,
          "of builtin:arithmetic: what its questions ask for, of +, - and *; empty: +");
    field("digits", &DataSpec::digits, "of builtin:arithmetic: the most digits of a number").at_least(1).at_most(9);
    field("held_out", &DataSpec::held_out, "of builtin:arithmetic: share of questions that are never trained on")
        .at_least(0)
        .at_most(0.9);
    field("train_on", &DataSpec::train_on,
          "which of the assistant's turns in a conversation are trained on: every one, or only the last");
  }
};

struct DataCollectionSpec {
  std::int64_t samples_per_example = 4;
  std::int64_t reward_batch_size = 32;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("samples_per_example", &DataCollectionSpec::samples_per_example, "answers collected per example")
        .at_least(1)
        .needs(Capability::experiments);
    field("reward_batch_size", &DataCollectionSpec::reward_batch_size, "answers that reward.program is asked about at once")
        .in("texts")
        .at_least(1);
  }
};

// One algorithm of an experiment. Naming any of its settings enables it.
struct AlgorithmSpec {
  std::optional<bool> enabled;
  std::optional<std::int64_t> batch_size;
  std::optional<std::int64_t> num_workers;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("enabled", &AlgorithmSpec::enabled, "whether the experiment runs it; not set: when it is mentioned")
        .needs(Capability::experiments);
    field("batch_size", &AlgorithmSpec::batch_size,
          "training batch; reward scoring has data_collection.reward_batch_size")
        .in("sequences")
        .at_least(1)
        .needs(Capability::experiments);
    field("num_workers", &AlgorithmSpec::num_workers, "threads that prepare batches")
        .at_least(0)
        .needs(Capability::experiments);
  }
};

struct AlgosSpec {
  AlgorithmSpec pita, qsharp, qsharp_hf, dpo, grpo, grpo_hf;

  template <class Visitor>
  static void describe(Visitor& visitor) {
    visitor.section("PITA", &AlgosSpec::pita, "value-guided decoding from preferences");
    visitor.section("QSharp", &AlgosSpec::qsharp, "value-guided decoding from rewards");
    visitor.section("QSharp-HF", &AlgosSpec::qsharp_hf, "Q# on a learnt proxy reward");
    visitor.section("DPO", &AlgosSpec::dpo, "direct preference optimisation");
    visitor.section("GRPO", &AlgosSpec::grpo, "group-relative policy optimisation");
    visitor.section("GRPO-HF", &AlgosSpec::grpo_hf, "GRPO on a learnt proxy reward");
  }
};

struct SystemSpec {
  Attention attn_impl = Attention::sdpa;
  bool deterministic = false;
  std::int64_t clear_cache_interval = 0;
  bool use_parallel_execution = true;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("attn_impl", &SystemSpec::attn_impl, "how attention is computed");
    field("deterministic", &SystemSpec::deterministic,
          "on a GPU: the same bits whatever is computed beside, which is slower; a CPU always gives them");
    field("clear_cache_interval", &SystemSpec::clear_cache_interval,
          "return cached GPU memory to the driver after this many steps; 0: never")
        .in("steps")
        .at_least(0);
    field("use_parallel_execution", &SystemSpec::use_parallel_execution,
          "run an experiment's jobs on all GPUs at once; false: one at a time")
        .needs(Capability::experiments);
  }
};

struct SweepSpec {
  std::optional<std::string> name;

  template <class Visitor>
  static void describe(Visitor& field) {
    field("name", &SweepSpec::name, "name of the sweep whose observations this run shares").needs(Capability::sweeps);
  }
};

struct RunSpec {
  // What training.algorithm minimises over preferences; absent: it does not learn from them.
  std::optional<PreferenceOptions> preference_options() const;
  // How training.algorithm teaches a model to score; absent: it does not.
  std::optional<RewardModelOptions> reward_model_options() const;
  // How training.algorithm learns from answers that the model samples; absent: it does not.
  std::optional<PolicyOptions> policy_options() const;
  // What is learnt beside the policy; absent: nothing is.
  std::optional<CriticOptions> critic_options() const;
  // How sampled answers are judged; absent: reward.functions is not set.
  std::optional<RewardOptions> reward_options() const;
  // What the model acts in; absent: environment.type is not set.
  std::optional<EnvironmentOptions> environment_options() const;
  // Likewise where it is evaluated, and how it answers there.
  EnvironmentOptions evaluation_environment(const EvaluationEnvironment& one) const;
  EpisodeDraws episode_draws() const;

  EnvironmentOptions options_of(EnvironmentKind kind) const;

  ExperimentSpec experiment;
  DistributedSpec distributed;
  ModelSpec model;
  TrainingSpec training;
  SftSpec sft;
  DpoSpec dpo;
  SimpoSpec simpo;
  OrpoSpec orpo;
  KtoSpec kto;
  RewardModelSpec reward_model;
  GrpoSpec grpo;
  RlooSpec rloo;
  PpoSpec ppo;
  RewardSpec reward;
  EnvironmentSpec environment;
  GenerationSpec generation;
  DataSpec data;
  DataCollectionSpec data_collection;
  AlgosSpec algos;
  SystemSpec system;
  SweepSpec sweep;

  template <class Visitor>
  static void describe(Visitor& visitor) {
    visitor.section("experiment", &RunSpec::experiment, "what the run is called and where it goes");
    visitor.section("distributed", &RunSpec::distributed, "GPUs, ranks and how the work is spread over them");
    visitor.section("model", &RunSpec::model, "the model and how it is loaded");
    visitor.section("training", &RunSpec::training, "the training loop");
    visitor.section("sft", &RunSpec::sft, "imitation of given answers, training.algorithm=sft");
    visitor.section("dpo", &RunSpec::dpo, "direct preference optimisation, training.algorithm=dpo");
    visitor.section("simpo", &RunSpec::simpo, "pairs compared by mean log-probabilities, training.algorithm=simpo");
    visitor.section("orpo", &RunSpec::orpo, "odds ratios beside the likelihood, training.algorithm=orpo");
    visitor.section("kto", &RunSpec::kto, "answers judged by themselves, training.algorithm=kto");
    visitor.section("reward_model", &RunSpec::reward_model, "texts scored so that the better one is ahead, training.algorithm=reward");
    visitor.section("grpo", &RunSpec::grpo, "answers compared within groups, training.algorithm=grpo");
    visitor.section("rloo", &RunSpec::rloo, "answers compared with the others of a group, training.algorithm=rloo");
    visitor.section("ppo", &RunSpec::ppo, "tokens compared with a value that is learnt beside, training.algorithm=ppo");
    visitor.section("reward", &RunSpec::reward, "how sampled answers are judged");
    visitor.section("environment", &RunSpec::environment, "what a model acts in, answer by answer");
    visitor.section("generation", &RunSpec::generation, "how answers are drawn");
    visitor.section("data", &RunSpec::data, "what to train on");
    visitor.section("data_collection", &RunSpec::data_collection, "how an experiment collects its own data");
    visitor.section("algos", &RunSpec::algos, "the algorithms of an experiment");
    visitor.section("system", &RunSpec::system, "machine-level choices");
    visitor.section("sweep", &RunSpec::sweep, "hyper-parameter search");
  }
};

}  // namespace muster::spec
