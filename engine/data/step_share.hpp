// How the units of a step are dealt to ranks and their passes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/batch_schedule.hpp"

namespace muster::data {

struct RankPlace {
  std::int64_t ranks = 1;
  std::int64_t rank = 0;
  std::int64_t micro_batch = 1;  // units of a pass at most
};

// Unit i goes to rank i mod ranks. Every rank gets the same number of passes, so that none waits for another in vain;
// where units are short, its last ones have none.
std::vector<std::vector<Unit>> share(std::span<const Unit> units, const RankPlace& place);

// Passes of every rank in a step of that many units.
std::int64_t passes_of(std::int64_t units, const RankPlace& place);

}  // namespace muster::data
