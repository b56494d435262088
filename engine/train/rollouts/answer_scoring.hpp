// Numbers of each token of sampled answers, from forward passes alone.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "data/micro_batch.hpp"
#include "train/rollouts/rollout.hpp"
#include "train/trained_model.hpp"

namespace muster::train {

class AnswerScoring {
 public:
  // Both must outlive it. at_once: answers of a pass.
  AnswerScoring(const TrainerContext& context, std::int64_t at_once) : context_(context), at_once_(at_once) {}

  // A pass of the model: float32 [trained rows], on any device.
  using Pass = std::function<at::Tensor(data::MicroBatch&)>;
  // Where an answer's numbers go, one for each token.
  using Take = std::function<void(Rollout&, std::span<const float>)>;
  // prompts: tokens of every prompt of the data. Where the model's parameters are not always there, ranks keep step, and
  // all of them call it. Where memory runs out, it begins again with fewer at once.
  void run(std::vector<Rollout>& answers, const std::vector<std::vector<std::int32_t>>& prompts,
           model::ParameterAccess& home, const Pass& pass, const Take& take);

 private:
  const TrainerContext& context_;
  std::int64_t at_once_;
};

}  // namespace muster::train
