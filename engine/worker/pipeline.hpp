// A model that is split by layers over consecutive ranks of a job: which of them this rank is, and its part in it.
//
// There are R × S ranks, S stages each; rank r is stage r mod S of replica r / S. Replicas know nothing of each other.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "worker/job.hpp"
#include "generate/pipeline_runner.hpp"

namespace muster::worker {

class Pipeline {
 public:
  // What this rank holds. stages: at least two; the job's ranks are a multiple.
  static model::LayerRange layers_of(const Job& job, const std::vector<wire::Stage>& stages);
  // Joins the ranks that this one shares the model with.
  static Result<std::unique_ptr<Pipeline>> join(const Job& job, const std::vector<wire::Stage>& stages);

  bool is_first() const { return messages_->rank() == 0; }

  // The first stage: what carries out steps over all of them. All must outlive this.
  generate::StepRunner& start(model::CausalModel& model, tensor::DeviceOps& ops, model::KeyValueCache& cache,
                              const tensor::SamplingRules& rules);
  // The first stage, when there are no more steps.
  void end() { link_->end(); }
  // The other stages: carries out steps until there are no more.
  void serve(model::CausalModel& model, tensor::DeviceOps& ops, model::KeyValueCache& cache,
             const tensor::SamplingRules& rules);

 private:
  Pipeline() = default;
  void connect(model::CausalModel& model, tensor::DeviceOps& ops, model::KeyValueCache& cache,
               const tensor::SamplingRules& rules);

  std::unique_ptr<communicate::Communicator> messages_;
  std::unique_ptr<communicate::Communicator> rows_;  // absent: rows go with the messages
  std::chrono::milliseconds silence_{0};
  std::optional<generate::ModelStage> stage_;
  std::optional<generate::PipelineLink> link_;
  std::optional<generate::PipelineRunner> runner_;
};

}  // namespace muster::worker
