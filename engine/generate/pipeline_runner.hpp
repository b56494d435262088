// Steps over the ranks that a model is split over: the first stage's side, which keeps the books.
#pragma once

#include "generate/step_runner.hpp"
#include "generate/pipeline_stage.hpp"

namespace muster::generate {

class PipelineRunner final : public StepRunner {
 public:
  // On the first stage; both must outlive this. depth: steps under way at once.
  PipelineRunner(StageWork& work, PipelineLink& link, int depth) : work_(work), link_(link), depth_(depth) {}

  int depth() const override { return depth_; }
  // Computes this stage's layers; the other stages compute theirs meanwhile, of earlier steps.
  void begin(const Step& step) override { link_.pass_on(step, work_.forward(step, {})); }
  std::vector<tensor::ChosenToken> finish() override { return link_.next_answer(); }

 private:
  StageWork& work_;
  PipelineLink& link_;
  int depth_;
};

}  // namespace muster::generate
