// A task that trains a model. All ranks get the same one; its data was prepared, and its checkpoint chosen, before any
// of them starts. Marks say what a field is to other hosts and to the run's identity (field_marks.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/adapter_options.hpp"
#include "spec/computed_types.hpp"
#include "spec/environment_options.hpp"
#include "spec/model/model_config.hpp"
#include "spec/policy_options.hpp"
#include "spec/preference_options.hpp"
#include "spec/reward_model_options.hpp"
#include "spec/reward_options.hpp"
#include "spec/sft_options.hpp"
#include "spec/values.hpp"
#include "spec/weight_options.hpp"
#include "wire/field_marks.hpp"

namespace muster::wire {

// How the training state is laid over the ranks.
struct ShardingOptions {
  spec::ShardingStrategy kind = spec::ShardingStrategy::no_shard;  // no_shard: every rank holds everything
  std::int64_t group = 1;                                          // hybrid_shard: consecutive ranks that share a copy
  bool offload = false;                                            // shards are in the host's memory

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("kind", self.kind, agreed("distributed.strategy or distributed.fsdp_sharding_strategy"));
    visit("group", self.group, agreed("distributed.fsdp_group_size"));
    visit("offload", self.offload, agreed("distributed.fsdp_cpu_offload"));
  }
  bool operator==(const ShardingOptions&) const = default;
};

// The learning rate's schedule, and what steps the weights.
struct OptimizerOptions {
  spec::OptimizerKind kind = spec::OptimizerKind::adamw;
  double rate = 2e-5;  // the peak
  spec::RateSchedule schedule = spec::RateSchedule::linear;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 1;  // for wsd
  double weight_decay = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0.9;
  double max_gradient_norm = 1;

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("kind", self.kind, agreed("training.optimizer"), of_identity);
    visit("rate", self.rate, agreed("training.learning_rate"), of_identity);
    visit("schedule", self.schedule, agreed("training.lr_scheduler"), of_identity);
    visit("warmup_steps", self.warmup_steps, agreed("training.warmup_steps"), of_identity);
    visit("decay_steps", self.decay_steps, agreed("training.decay_steps"), of_identity);
    visit("weight_decay", self.weight_decay, agreed("training.weight_decay"), of_identity);
    visit("beta1", self.beta1, agreed("training.adam_beta1"), of_identity);
    visit("beta2", self.beta2, agreed("training.adam_beta2"), of_identity);
    visit("epsilon", self.epsilon, agreed("training.adam_epsilon"), of_identity);
    visit("momentum", self.momentum, agreed("training.momentum"), of_identity);
    visit("max_gradient_norm", self.max_gradient_norm, agreed("training.max_grad_norm"), of_identity);
  }
  bool operator==(const OptimizerOptions&) const = default;
};

// An environment that the model is evaluated in, by the name that its metrics begin with.
struct EvaluatedEnvironment {
  std::string name;
  spec::EnvironmentOptions options;

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("name", self.name);
    visit("options", self.options);
  }
  bool operator==(const EvaluatedEnvironment&) const = default;
};

struct EpisodeEvaluations {
  std::vector<EvaluatedEnvironment> environments;
  std::int64_t episodes = 10;  // in each of them
  spec::EpisodeDraws draws;

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("environments", self.environments);
    visit("episodes", self.episodes);
    visit("draws", self.draws);
  }
  bool operator==(const EpisodeEvaluations&) const = default;
};

// What is evaluated during the training, and when.
struct EvaluationOptions {
  std::optional<std::string> data;       // prepared tokens, for the loss
  std::optional<std::string> questions;  // JSON lines with prompt and answer, for exact match by generation
  std::optional<std::int64_t> every;     // steps; absent: only at the end
  std::int64_t samples = 3;              // answers that are shown
  std::optional<std::string> reference;  // as TrainTask::reference, of this data
  std::optional<EpisodeEvaluations> episodes;  // absent: none are played
  std::vector<std::string> episode_rows;       // for each environment a file of what its rows open with

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("data", self.data, agreed_presence("the data for evaluation"));
    visit("questions", self.questions, agreed_presence("the data for evaluation"));
    visit("every", self.every, agreed("training.eval_steps"));
    visit("samples", self.samples, own);
    visit("reference", self.reference, own);
    visit("episodes", self.episodes, agreed("environment.evaluations, training.eval_episodes or generation"));
    visit("episode_rows", self.episode_rows, own);
  }
  bool operator==(const EvaluationOptions&) const = default;
};

struct TrainTask {
  std::string run_folder;
  std::string attempt;          // a name for this start of the ranks, which no other start of the run has
  spec::Algorithm algorithm = spec::Algorithm::sft;
  std::string model;            // as the user calls it, or a folder that has its config.json and text files
  bool random_weights = false;  // begin from random numbers instead of the checkpoint's
  spec::ElementType compute = spec::ElementType::float32;
  // The type of masters, gradients and optimizer state: float32, or bfloat16 if that is computed in.
  spec::ElementType state = spec::ElementType::float32;
  spec::Attention attention = spec::Attention::sdpa;
  bool deterministic = false;  // GPU: the same bits whatever else is computed at the same time
  bool exact = false;          // sums of gradients are exact
  spec::Recomputation recompute = spec::Recomputation::none;
  ShardingOptions sharding;
  std::optional<spec::WeightOptions> weights;    // absent: plain ones
  std::optional<spec::AdapterOptions> adapters;  // absent: the weights themselves are trained
  std::optional<std::string> adapter;            // the folder of the one to begin with; absent: a fresh one
  // A head for scores that is trained, and that the model's files do not have: it begins from random numbers.
  std::optional<spec::ScoreHead> fresh_head;
  std::optional<std::string> value_head;  // the file that this head begins from instead (spec/model/value_head_file.hpp)
  std::optional<spec::CombinedOptions> combined;  // absent: all trained tokens count the same
  std::optional<spec::PreferenceOptions> preferences;  // absent: none are learnt from
  std::optional<spec::RewardModelOptions> reward_model;  // absent: no scores are learnt
  std::optional<spec::PolicyOptions> policy;  // absent: no answers are sampled. Else data is a file of questions
  std::optional<spec::CriticOptions> critic;  // absent: nothing is learnt beside the policy
  std::optional<std::string> critic_model;      // what learns it with weights of its own; absent: a head of the policy
  std::optional<spec::ScoreHead> critic_head;   // as fresh_head, of this model
  std::optional<double> critic_rate;            // as optimizer.rate, of this model; absent: that
  std::optional<spec::RewardOptions> reward;  // how they are judged
  std::optional<std::string> judge;           // the reward model that is one of the functions, in the type of compute
  std::optional<spec::WeightOptions> judge_weights;  // how it holds its weights; absent: plain
  std::optional<spec::EnvironmentOptions> environment;  // what they are steps in; absent: each is an episode of its own
  std::int64_t sampled_at_once = 64;          // answers that a rank writes side by side
  // Where the reference's scores of the data lie, or are kept once they are computed; absent: there is no reference.
  std::optional<std::string> reference;
  std::string data;                              // prepared tokens
  bool packing = false;
  std::int64_t sequence_length = 1024;
  std::int64_t steps = 0;        // in total, from the beginning of the run
  std::int64_t batch_size = 1;   // units per step, over all ranks
  std::int64_t micro_batch = 1;  // units per rank and pass
  std::int64_t loader_threads = 0;
  bool pinned = true;  // batches go to a GPU from pinned memory
  OptimizerOptions optimizer;
  EvaluationOptions evaluation;
  std::optional<std::int64_t> save_every;  // steps; absent: only at the end
  std::optional<std::int64_t> keep;        // checkpoints; absent: all
  spec::FinalSave save_at_end = spec::FinalSave::all;
  std::int64_t saving_ranks = 1;      // this many ranks, the first ones, have the run's folder and save together
  std::optional<std::string> resume;  // for the ranks that have it: the checkpoint to resume from
  std::string identity;               // of model, data and settings: a checkpoint of others is refused
  std::int64_t clear_cache_every = 0;
  std::chrono::milliseconds disk_patience{0};  // how long a full disk is waited for

  static constexpr std::string_view word = "train";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("run_folder", self.run_folder, own);
    visit("attempt", self.attempt, own);
    visit("algorithm", self.algorithm, agreed("training.algorithm"), of_identity_unless<spec::Algorithm::sft>);
    visit("model", self.model, own);
    visit("random_weights", self.random_weights, agreed("model.init"), of_identity);
    visit("compute", self.compute, agreed("training.mixed_precision"), of_identity);
    visit("state", self.state, agreed("model.dtype"), of_identity);
    visit("attention", self.attention, own, of_identity);
    visit("deterministic", self.deterministic, own, of_identity);
    visit("exact", self.exact, agreed("training.deterministic"), of_identity);
    visit("recompute", self.recompute, from_rank_zero);
    visit("sharding", self.sharding);
    visit("weights", self.weights, agreed("model.load_in_8bit or model.load_in_4bit"), of_identity_if_there);
    visit("adapters", self.adapters, agreed("model.use_lora or what belongs to it"), of_identity_if_there);
    visit("adapter", self.adapter, agreed_presence("model.adapters"));
    visit("fresh_head", self.fresh_head, agreed("training.algorithm"), of_identity_if_there);
    visit("value_head", self.value_head, agreed_presence("value_head.safetensors beside the model"));
    visit("combined", self.combined, agreed("sft"), of_identity_if_there);
    visit("preferences", self.preferences, agreed("dpo, simpo, orpo or kto"), of_identity_if_there);
    visit("reward_model", self.reward_model, agreed("reward_model"), of_identity_if_there);
    visit("policy", self.policy, agreed("grpo, rloo, ppo or generation"), of_identity_if_there);
    visit("critic", self.critic, agreed("ppo"), of_identity_if_there);
    visit("critic_model", self.critic_model, agreed_presence("ppo.critic"));
    visit("critic_head", self.critic_head, agreed("ppo.critic"), of_identity_if_there);
    visit("critic_rate", self.critic_rate, agreed("ppo.critic_learning_rate"), of_identity_if_there);
    visit("reward", self.reward, agreed("reward"), of_identity_if_there);
    visit("judge", self.judge, agreed_presence("reward.model"));
    visit("judge_weights", self.judge_weights, agreed("reward.model"), of_identity_if_there);
    visit("environment", self.environment, agreed("environment"), of_identity_if_there);
    visit("sampled_at_once", self.sampled_at_once, own);
    visit("reference", self.reference, own);
    visit("data", self.data, agreed_file_name("data"));
    visit("packing", self.packing, agreed("training.packing"), of_identity);
    visit("sequence_length", self.sequence_length, agreed("training.sequence_length"), of_identity);
    visit("steps", self.steps, agreed("training.max_steps"));
    visit("batch_size", self.batch_size, agreed("training.batch_size"), of_identity);
    visit("micro_batch", self.micro_batch, from_rank_zero);
    visit("loader_threads", self.loader_threads, own);
    visit("pinned", self.pinned, own);
    visit("optimizer", self.optimizer);
    visit("evaluation", self.evaluation);
    visit("save_every", self.save_every, agreed("training.save_steps"));
    visit("keep", self.keep, own);
    visit("save_at_end", self.save_at_end, agreed("training.save_at_end"));
    visit("saving_ranks", self.saving_ranks, own);
    visit("resume", self.resume, own);
    visit("identity", self.identity, own);
    visit("clear_cache_every", self.clear_cache_every, own);
    visit("disk_patience", self.disk_patience, own);
  }
  bool operator==(const TrainTask&) const = default;
};

}  // namespace muster::wire
