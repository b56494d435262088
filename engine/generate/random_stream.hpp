// Random numbers that depend on what is drawn, not on when: every answer to every prompt has a stream of its own, so
// that neither batch, ranks nor arrival change a draw.
#pragma once

#include <cstdint>

namespace muster::generate {

struct RandomStream {
  std::uint64_t seed = 0;
  std::uint64_t prompt = 0;
  std::uint64_t sample = 0;

  // From 0 up to, but not including 1: the draw for the token at this place of the answer.
  double uniform(std::uint64_t step) const;
};

}  // namespace muster::generate
