// Keeps the gradients of float16 within its range: the loss is multiplied by a scale that falls when gradients overflow
// and rises after a while without.
#pragma once

#include <cstdint>

namespace muster::optimizer {

class LossScaler {
 public:
  struct State {
    double scale = 65536;
    std::int64_t clean_steps = 0;  // since it last changed
    std::int64_t skipped = 0;      // in all
    bool operator==(const State&) const = default;
  };
  static constexpr std::int64_t steps_to_rise = 2000;

  LossScaler() = default;
  explicit LossScaler(const State& state) : state_(state) {}

  double scale() const { return state_.scale; }
  const State& state() const { return state_; }
  // To be called once a step, with whether its gradients were all numbers.
  void update(bool finite) {
    if (!finite) {
      state_.scale *= 0.5;
      state_.clean_steps = 0;
      ++state_.skipped;
    } else if (++state_.clean_steps == steps_to_rise) {
      state_.scale *= 2;
      state_.clean_steps = 0;
    }
  }

 private:
  State state_;
};

}  // namespace muster::optimizer
