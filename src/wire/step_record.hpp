// The numbers of one optimizer step, as ranks report them, checkpoints keep them and metrics.csv lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::wire {

struct NamedNumber {
  std::string name;
  double value = 0;

  bool operator==(const NamedNumber&) const = default;
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("name", self.name);
    visit("value", self.value);
  }
};

// A fixed core, and what the objective measures beside its loss.
struct StepRecord {
  std::int64_t step = 0;  // from 1
  double epoch = 0;       // how much of the data has been seen
  double loss = 0;        // over the trained tokens of the batch
  double learning_rate = 0;
  std::optional<double> gradient_norm;  // before clipping; absent: not finite
  std::int64_t tokens = 0;              // read by the model, over all ranks
  double seconds = 0;
  std::optional<std::vector<NamedNumber>> metrics;  // spec::metrics_beside_loss; absent: there are none

  bool operator==(const StepRecord&) const = default;
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("step", self.step);
    visit("epoch", self.epoch);
    visit("loss", self.loss);
    visit("learning_rate", self.learning_rate);
    visit("gradient_norm", self.gradient_norm);
    visit("tokens", self.tokens);
    visit("seconds", self.seconds);
    visit("metrics", self.metrics);
  }
};

}  // namespace muster::wire
