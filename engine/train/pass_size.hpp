// How much a pass takes on at once: what can be given up when memory runs out, without a change of any result.
#pragma once

#include <cstdint>

#include "spec/values.hpp"

namespace muster::train {

struct PassSize {
  std::int64_t micro_batch = 1;  // sequences
  spec::Recomputation recompute = spec::Recomputation::none;

  bool operator==(const PassSize&) const = default;

  // The next smaller one: half the sequences; where there is only one, more is computed again. False: there is none.
  bool shrink() {
    using spec::Recomputation;
    if (micro_batch > 1)
      micro_batch = (micro_batch + 1) / 2;
    else if (recompute != Recomputation::full)
      recompute = recompute == Recomputation::none ? Recomputation::selective : Recomputation::full;
    else
      return false;
    return true;
  }
};

}  // namespace muster::train
