// Which model a task computes with, and how it is held: what is needed to load it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spec/computed_types.hpp"
#include "spec/values.hpp"
#include "spec/weight_options.hpp"

namespace muster::wire {

struct ModelChoice {
  std::string name;  // as the user calls it
  // Folders of low-rank adapters beside its weights. A request has the number of its own, -1 for none; usually 0.
  std::vector<std::string> adapters;
  std::optional<std::string> tokenizer;        // of another folder
  bool random_weights = false;                 // instead of the checkpoint's
  std::optional<spec::ElementType> dtype;      // absent: bfloat16 if the device has it, else float32
  std::optional<spec::WeightOptions> weights;  // absent: as the checkpoint has them
  spec::Attention attention = spec::Attention::sdpa;
  bool deterministic = false;

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("model", self.name);
    visit("adapters", self.adapters);
    visit("tokenizer", self.tokenizer);
    visit("random_weights", self.random_weights);
    visit("dtype", self.dtype);
    visit("weights", self.weights);
    visit("attention", self.attention);
    visit("deterministic", self.deterministic);
  }
  bool operator==(const ModelChoice&) const = default;
};

}  // namespace muster::wire
