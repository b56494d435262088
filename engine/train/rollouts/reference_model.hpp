// What a policy is held to: the model as it began. Where low-rank adapters are trained from nothing it is the same model
// without them; otherwise a second copy of the weights, in the type that is computed in, whole on every rank.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "train/rollouts/answer_scoring.hpp"
#include "train/trained_model.hpp"

namespace muster::train {

class ReferenceModel {
 public:
  // All must outlive it. Reads the model's files, where it is a copy.
  static Result<std::unique_ptr<ReferenceModel>> make(const wire::TrainTask& task, const TrainerContext& context,
                                                      TrainedModel& trained);

  // Gives each answer the log-probabilities of its tokens (Rollout::reference), with the bits of the trainer's own code.
  // As AnswerScoring::run.
  void score(std::vector<Rollout>& answers, const std::vector<std::vector<std::int32_t>>& prompts);

 private:
  ReferenceModel(const wire::TrainTask& task, const TrainerContext& context, TrainedModel& trained)
      : task_(task), context_(context), trained_(trained), scoring_(context, task.micro_batch) {}

  Result<void> load_copy();
  model::CausalModel& model() { return copy_ ? *copy_ : trained_.model(); }

  const wire::TrainTask& task_;
  const TrainerContext& context_;
  TrainedModel& trained_;
  std::optional<model::CausalModel> copy_;
  AnswerScoring scoring_;
};

}  // namespace muster::train
