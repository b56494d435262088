// A task that trains a model. All ranks get the same one; its data was prepared, and its checkpoint chosen, before any
// of them starts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spec/element_type.hpp"
#include "spec/values.hpp"
#include "wire/generate_task.hpp"

namespace muster::wire {

template <>
struct Words<spec::Algorithm> {
  static constexpr std::array table{
      std::pair{spec::Algorithm::sft, std::string_view("sft")},       std::pair{spec::Algorithm::dpo, std::string_view("dpo")},
      std::pair{spec::Algorithm::grpo, std::string_view("grpo")},     std::pair{spec::Algorithm::ppo, std::string_view("ppo")},
      std::pair{spec::Algorithm::pita, std::string_view("pita")},     std::pair{spec::Algorithm::qsharp, std::string_view("qsharp")}};
};
template <>
struct Words<spec::OptimizerKind> {
  static constexpr std::array table{std::pair{spec::OptimizerKind::adamw, std::string_view("adamw")},
                                    std::pair{spec::OptimizerKind::sgd, std::string_view("sgd")},
                                    std::pair{spec::OptimizerKind::sgd_momentum, std::string_view("sgd_momentum")}};
};
template <>
struct Words<spec::RateSchedule> {
  static constexpr std::array table{std::pair{spec::RateSchedule::constant, std::string_view("constant")},
                                    std::pair{spec::RateSchedule::linear, std::string_view("linear")},
                                    std::pair{spec::RateSchedule::cosine, std::string_view("cosine")},
                                    std::pair{spec::RateSchedule::warmup_stable_decay, std::string_view("wsd")}};
};
template <>
struct Words<spec::Recomputation> {
  static constexpr std::array table{std::pair{spec::Recomputation::none, std::string_view("none")},
                                    std::pair{spec::Recomputation::selective, std::string_view("selective")},
                                    std::pair{spec::Recomputation::full, std::string_view("full")}};
};
template <>
struct Words<spec::FinalSave> {
  static constexpr std::array table{std::pair{spec::FinalSave::all, std::string_view("all")},
                                    std::pair{spec::FinalSave::model, std::string_view("model")},
                                    std::pair{spec::FinalSave::nothing, std::string_view("nothing")}};
};

template <>
struct Words<spec::ShardingStrategy> {
  static constexpr std::array table{std::pair{spec::ShardingStrategy::full_shard, std::string_view("full_shard")},
                                    std::pair{spec::ShardingStrategy::shard_grad_op, std::string_view("shard_grad_op")},
                                    std::pair{spec::ShardingStrategy::no_shard, std::string_view("no_shard")},
                                    std::pair{spec::ShardingStrategy::hybrid_shard, std::string_view("hybrid_shard")}};
};

// How the training state is laid over the ranks.
struct ShardingOptions {
  spec::ShardingStrategy kind = spec::ShardingStrategy::no_shard;  // no_shard: every rank holds everything
  std::int64_t group = 1;                                          // hybrid_shard: consecutive ranks that share a copy
  bool offload = false;                                            // shards are in the host's memory

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("kind", self.kind);
    visit("group", self.group);
    visit("offload", self.offload);
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
    visit("kind", self.kind);
    visit("rate", self.rate);
    visit("schedule", self.schedule);
    visit("warmup_steps", self.warmup_steps);
    visit("decay_steps", self.decay_steps);
    visit("weight_decay", self.weight_decay);
    visit("beta1", self.beta1);
    visit("beta2", self.beta2);
    visit("epsilon", self.epsilon);
    visit("momentum", self.momentum);
    visit("max_gradient_norm", self.max_gradient_norm);
  }
  bool operator==(const OptimizerOptions&) const = default;
};

// What is evaluated during the training, and when.
struct EvaluationOptions {
  std::optional<std::string> data;       // prepared tokens, for the loss
  std::optional<std::string> questions;  // JSON lines with prompt and answer, for exact match by generation
  std::optional<std::int64_t> every;     // steps; absent: only at the end
  std::int64_t samples = 3;              // answers that are shown

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("data", self.data);
    visit("questions", self.questions);
    visit("every", self.every);
    visit("samples", self.samples);
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
  std::string data;  // prepared tokens
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
    visit("run_folder", self.run_folder);
    visit("attempt", self.attempt);
    visit("algorithm", self.algorithm);
    visit("model", self.model);
    visit("random_weights", self.random_weights);
    visit("compute", self.compute);
    visit("state", self.state);
    visit("attention", self.attention);
    visit("deterministic", self.deterministic);
    visit("exact", self.exact);
    visit("recompute", self.recompute);
    visit("sharding", self.sharding);
    visit("data", self.data);
    visit("packing", self.packing);
    visit("sequence_length", self.sequence_length);
    visit("steps", self.steps);
    visit("batch_size", self.batch_size);
    visit("micro_batch", self.micro_batch);
    visit("loader_threads", self.loader_threads);
    visit("pinned", self.pinned);
    visit("optimizer", self.optimizer);
    visit("evaluation", self.evaluation);
    visit("save_every", self.save_every);
    visit("keep", self.keep);
    visit("save_at_end", self.save_at_end);
    visit("saving_ranks", self.saving_ranks);
    visit("resume", self.resume);
    visit("identity", self.identity);
    visit("clear_cache_every", self.clear_cache_every);
    visit("disk_patience", self.disk_patience);
  }
  bool operator==(const TrainTask&) const = default;
};

}  // namespace muster::wire
