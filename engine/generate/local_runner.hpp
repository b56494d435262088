// Steps on one device that holds the whole model.
#pragma once

#include <deque>

#include "generate/decode_graphs.hpp"
#include "generate/step_runner.hpp"
#include "model/causal_model.hpp"

namespace muster::generate {

class LocalRunner final : public StepRunner {
 public:
  // All must outlive this.
  // longest: the most tokens of a sequence.
  LocalRunner(model::CausalModel& model, tensor::DeviceOps& ops, model::KeyValueCache& cache,
              const tensor::SamplingRules& rules, std::int64_t longest)
      : model_(model),
        ops_(ops),
        cache_(cache),
        rules_(rules),
        graphs_(model.is_resident() ? make_decode_graphs(model, ops, cache, longest) : nullptr) {}

  int depth() const override { return 1; }
  void begin(const Step& step) override;
  std::vector<tensor::ChosenToken> finish() override;

 private:
  model::CausalModel& model_;
  tensor::DeviceOps& ops_;
  model::KeyValueCache& cache_;
  tensor::SamplingRules rules_;
  std::unique_ptr<DecodeGraphs> graphs_;  // nullptr: steps are not recorded
  std::deque<std::vector<tensor::ChosenToken>> done_;
};

// The draws of a step from the hidden rows of its batch: final norm, head, choice. On the rank with the last layer.
std::vector<tensor::ChosenToken> draw_tokens(model::CausalModel& model, tensor::DeviceOps& ops,
                                             const tensor::SamplingRules& rules, const at::Tensor& hidden,
                                             const std::vector<Draw>& draws);

}  // namespace muster::generate
