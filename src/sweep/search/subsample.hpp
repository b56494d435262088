// Which of very many items, best first, are looked at when all would take too long.
#pragma once

#include <cstddef>

namespace muster::sweep {

// The i-th of most that are kept of count: the best half of them, and every n-th of the others. All if count is
// no more than most.
constexpr std::size_t kept_place(std::size_t i, std::size_t count, std::size_t most) {
  const std::size_t best = most / 2;
  if (count <= most || i < best) return i;
  return best + (i - best) * (count - best) / (most - best);
}

}  // namespace muster::sweep
