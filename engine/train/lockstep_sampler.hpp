// Answers of the model that is trained, each rank its share of the questions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "communicate/communicator.hpp"
#include "generate/sampler.hpp"
#include "model/causal_model.hpp"

namespace muster::train {

class LockstepSampler {
 public:
  // All must outlive this. most_sequences: answers that are written side by side. what: in the words of an error.
  LockstepSampler(model::CausalModel& model, tensor::DeviceOps& ops, std::int64_t most_sequences, std::string what)
      : model_(model), ops_(ops), most_sequences_(most_sequences), what_(std::move(what)) {}

  // To this rank's requests, in the order of index and sample. done: how many are answered, after each step. Where the
  // model's parameters are not always there, ranks keep step, and all of them call it. Where memory runs out, it begins
  // again with fewer at once.
  std::vector<generate::Completion> complete(const std::vector<generate::Request>& requests,
                                             const generate::SamplerOptions& options, communicate::Communicator& ranks,
                                             const std::function<void(std::int64_t done)>& done);

 private:
  model::CausalModel& model_;
  tensor::DeviceOps& ops_;
  std::int64_t most_sequences_;
  std::string what_;
};

}  // namespace muster::train
