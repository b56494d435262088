// Low-rank adapters as a user asks for them: y = W·x + scale · B·(A·x), of which A [rank, inputs] and B [outputs, rank]
// are trained.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::spec {

struct AdapterOptions {
  std::int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;                 // share of an adapter's inputs that is left out in training
  bool rank_stabilized = false;       // the scale is alpha / √rank, not alpha / rank
  std::vector<std::string> targets;   // PEFT's target_modules: names or one pattern; empty: every linear layer but the head
  std::vector<std::string> excluded;  // PEFT's exclude_modules
  bool decomposed = false;            // DoRA: the length of each row of W is trained as well
  std::vector<std::string> whole;     // PEFT's modules_to_save: trained themselves, and without adapters

  double scale() const {
    const auto of_rank = static_cast<double>(rank);
    return alpha / (rank_stabilized ? std::sqrt(of_rank) : of_rank);
  }

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("rank", self.rank);
    visit("alpha", self.alpha);
    visit("dropout", self.dropout);
    visit("rank_stabilized", self.rank_stabilized);
    visit("targets", self.targets);
    visit("excluded", self.excluded);
    visit("decomposed", self.decomposed);
    visit("whole", self.whole);
  }
  bool operator==(const AdapterOptions&) const = default;
};

}  // namespace muster::spec
