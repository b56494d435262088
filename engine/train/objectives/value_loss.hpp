// What is minimised over the value of a token: how far it is from what was earned from there on.
#pragma once

#include <algorithm>
#include <optional>

namespace muster::train {

struct ValueTerm {
  double loss = 0;
  double slope = 0;  // its derivative by the value
  bool clipped = false;
};

// ½ · (value − earned)², or, where that is more, the same of the value kept within `clip` of what was expected when the
// answer was drawn: a value that moved further towards what was earned is left alone.
inline ValueTerm value_loss(double value, double expected, double earned, std::optional<double> clip) {
  const double error = value - earned;
  const ValueTerm plain{error * error / 2, error, false};
  if (!clip) return plain;
  const double kept = std::clamp(value, expected - *clip, expected + *clip) - earned;
  const double bounded = kept * kept / 2;
  return bounded > plain.loss ? ValueTerm{bounded, 0, true} : plain;
}

}  // namespace muster::train
