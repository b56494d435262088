#include "wire/field_marks.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "json/fields.hpp"
#include "wire/run_identity.hpp"
#include "wire/train_task.hpp"

namespace muster::wire {
namespace {

struct FieldList {
  std::vector<std::string> unmarked, agreed, from_rank_zero, identity;
};

template <class T>
void walk(const T& described, const std::string& prefix, FieldList& list) {
  T::describe(described, [&]<class Field, class... Marks>(const char* name, const Field& field, const Marks&...) {
    const std::string path = prefix + name;
    if constexpr (Described<Field>) {
      static_assert(sizeof...(Marks) == 0, "its fields have the marks");
      walk(field, path + ".", list);
    } else {
      if (!has_rank_mark<Marks...>) list.unmarked.push_back(path);
      if ((std::same_as<Marks, FromRankZero> || ...)) list.from_rank_zero.push_back(path);
      if (has_rank_mark<Marks...> && !(std::same_as<Marks, FromRankZero> || ...) && !(std::same_as<Marks, Own> || ...))
        list.agreed.push_back(path);
      if (is_identity<Marks...>) list.identity.push_back(path);
    }
  });
}

FieldList fields_of_training() {
  FieldList list;
  walk(TrainTask(), "", list);
  return list;
}

TEST(FieldMarks, EveryFieldOfATrainingTaskSaysWhatItIsToTheOtherRanks) {
  EXPECT_EQ(fields_of_training().unmarked, std::vector<std::string>{});
}

TEST(FieldMarks, WhatDecidesTheExchangesBetweenRanksIsAgreed) {
  EXPECT_EQ(fields_of_training().agreed,
            (std::vector<std::string>{
                "algorithm", "random_weights", "compute", "state", "exact", "sharding.kind", "sharding.group",
                "sharding.offload", "weights", "adapters", "adapter", "fresh_head", "value_head", "combined", "preferences",
                "reward_model", "policy", "critic", "critic_model", "critic_head", "critic_rate", "reward", "judge",
                "judge_weights", "environment", "data", "packing", "sequence_length", "steps", "batch_size",
                "optimizer.kind", "optimizer.rate", "optimizer.schedule", "optimizer.warmup_steps", "optimizer.decay_steps",
                "optimizer.weight_decay", "optimizer.beta1", "optimizer.beta2", "optimizer.epsilon", "optimizer.momentum",
                "optimizer.max_gradient_norm", "evaluation.data", "evaluation.questions", "evaluation.every",
                "evaluation.episodes", "save_every", "save_at_end"}));
  EXPECT_EQ(fields_of_training().from_rank_zero, (std::vector<std::string>{"recompute", "micro_batch"}));
}

TEST(RunIdentity, CountsWhatTheNumbersFollowFrom) {
  EXPECT_EQ(fields_of_training().identity,
            (std::vector<std::string>{"random_weights", "compute", "state", "attention", "deterministic", "exact",
                                      "packing", "sequence_length", "batch_size", "optimizer.kind", "optimizer.rate",
                                      "optimizer.schedule", "optimizer.warmup_steps", "optimizer.decay_steps",
                                      "optimizer.weight_decay", "optimizer.beta1", "optimizer.beta2",
                                      "optimizer.epsilon", "optimizer.momentum", "optimizer.max_gradient_norm"}));
}

TEST(RunIdentity, CountsAFieldThatCameLaterWhereItIsNotWhatRunsWereWithoutIt) {
  TrainTask task;
  EXPECT_EQ(identity_text(task).find("algorithm"), std::string::npos);
  task.algorithm = spec::Algorithm::dpo;
  EXPECT_NE(identity_text(task).find("\"algorithm\":\"dpo\""), std::string::npos);
}

TEST(RunIdentity, IsTheTextThatEarlierVersionsHashed) {
  TrainTask task;
  task.run_folder = "/runs/a";
  task.attempt = "b";
  task.model = "m";
  task.compute = spec::ElementType::bfloat16;
  task.attention = spec::Attention::eager;
  task.recompute = spec::Recomputation::full;
  task.sharding = {spec::ShardingStrategy::full_shard, 2, true};
  task.data = "/cache/x.tokens";
  task.steps = 9;
  task.batch_size = 12;
  task.micro_batch = 3;
  task.loader_threads = 2;
  task.optimizer.kind = spec::OptimizerKind::sgd_momentum;
  task.optimizer.schedule = spec::RateSchedule::warmup_stable_decay;
  task.optimizer.rate = 1.25e-4;
  task.evaluation = {"e", "q", 5, 7};
  task.save_every = 4;
  task.keep = 2;
  task.save_at_end = spec::FinalSave::nothing;
  task.saving_ranks = 2;
  task.resume = "c";
  task.identity = "i";
  task.clear_cache_every = 6;
  task.disk_patience = std::chrono::milliseconds(5000);
  EXPECT_EQ(identity_text(task),
            R"({"run_folder":"","attempt":"","model":"","random_weights":false,)"
            R"("compute":"bfloat16","state":"float32","attention":"eager","deterministic":false,)"
            R"("exact":false,"recompute":"none","sharding":{"kind":"no_shard","group":1,"offload":false},)"
            R"("data":"","packing":false,"sequence_length":1024,"steps":0,)"
            R"("batch_size":12,"micro_batch":1,"loader_threads":0,"pinned":false,)"
            R"("optimizer":{"kind":"sgd_momentum","rate":0.000125,"schedule":"wsd","warmup_steps":0,"decay_steps":1,)"
            R"("weight_decay":0.0,"beta1":0.9,"beta2":0.999,"epsilon":1e-08,"momentum":0.9,"max_gradient_norm":1.0},)"
            R"("evaluation":{"data":null,"questions":null,"every":null,"samples":3},)"
            R"("save_every":null,"keep":null,"saving_ranks":1,"resume":null,"identity":"","clear_cache_every":0})");
}

}  // namespace
}  // namespace muster::wire
