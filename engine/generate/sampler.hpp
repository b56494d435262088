// Answers of a model with the weights that it has now: the cache, the runner and the books of a generator in one. For
// who asks in batches, as evaluations and rollouts do, while the model is trained.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "generate/generator.hpp"
#include "generate/local_runner.hpp"
#include "model/key_value_cache.hpp"

namespace muster::generate {

struct SamplerOptions {
  std::int64_t longest = 0;  // prompt and answer together, in tokens, of any request
  tensor::SamplingRules rules = {};
  GeneratorSettings generator = {};
  // Carries out each forward pass; absent: at once. Where the model's parameters come and go, ranks keep step by it.
  std::function<void(const std::function<void()>& pass)> pace = {};
};

// One sample of one request.
struct Completion {
  std::int64_t index = 0;
  std::int64_t sample = 0;
  std::vector<std::int32_t> tokens;
  std::vector<float> log_probabilities;  // of the tokens, as the rules have them; NaN: drawn from logits that are none
  Finish finish = Finish::length;
};

class Sampler {
 public:
  // Takes memory for options.generator.most_sequences sequences of the longest. model and ops must outlive it.
  Sampler(model::CausalModel& model, tensor::DeviceOps& ops, SamplerOptions options);

  // In the order of index and sample. ended: how many are complete, after each step.
  std::vector<Completion> complete(const std::vector<Request>& requests,
                                   const std::function<void(std::int64_t ended)>& ended = {});

 private:
  class PacedRunner final : public StepRunner {
   public:
    PacedRunner(StepRunner& steps, const SamplerOptions& options) : steps_(steps), options_(options) {}
    int depth() const override { return steps_.depth(); }
    void begin(const Step& step) override {
      if (!options_.pace) return steps_.begin(step);
      options_.pace([&] { steps_.begin(step); });
    }
    std::vector<tensor::ChosenToken> finish() override { return steps_.finish(); }

   private:
    StepRunner& steps_;
    const SamplerOptions& options_;
  };

  SamplerOptions options_;
  model::KeyValueCache cache_;
  LocalRunner steps_;
  PacedRunner runner_;
  BlockPool pool_;
  Generator generator_;
};

}  // namespace muster::generate
