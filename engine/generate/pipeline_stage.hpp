// One stage of a model that is split by layers over the ranks of a replica.
#pragma once

#include <vector>

#include "generate/step.hpp"
#include "model/causal_model.hpp"
#include "generate/pipeline_link.hpp"

namespace muster::generate {

// What a stage does to a step.
class StageWork {
 public:
  virtual ~StageWork() = default;
  // [rows, hidden], through this stage's layers. before: what the stage before gave; undefined on the first, which
  // embeds the tokens.
  virtual at::Tensor forward(const Step& step, const at::Tensor& before) = 0;
  // Only on the last stage.
  virtual std::vector<tensor::ChosenToken> draw(const Step& step, const at::Tensor& hidden) = 0;
  // What rows from the stage before are received into.
  virtual at::Tensor empty_rows(std::int64_t rows) const = 0;
};

// The layers that a model holds, over a cache that follows the steps' moves.
class ModelStage final : public StageWork {
 public:
  // All must outlive this.
  ModelStage(model::CausalModel& model, tensor::DeviceOps& ops, model::KeyValueCache& cache,
             const tensor::SamplingRules& rules)
      : model_(model), ops_(ops), cache_(cache), rules_(rules) {}

  at::Tensor forward(const Step& step, const at::Tensor& before) override;
  std::vector<tensor::ChosenToken> draw(const Step& step, const at::Tensor& hidden) override;
  at::Tensor empty_rows(std::int64_t rows) const override;

 private:
  model::CausalModel& model_;
  tensor::DeviceOps& ops_;
  model::KeyValueCache& cache_;
  tensor::SamplingRules rules_;
};

// Every stage but the first: steps arrive, go through work, and are passed on, until there are no more.
void run_stage(StageWork& work, PipelineLink& link);

}  // namespace muster::generate
