#include "data/step_share.hpp"

namespace muster::data {

std::int64_t passes_of(std::int64_t units, const RankPlace& place) {
  const std::int64_t most = (units + place.ranks - 1) / place.ranks;
  return (most + place.micro_batch - 1) / place.micro_batch;
}

std::vector<std::vector<Unit>> share(std::span<const Unit> units, const RankPlace& place) {
  const auto count = static_cast<std::int64_t>(units.size());
  std::vector<std::vector<Unit>> passes(static_cast<std::size_t>(passes_of(count, place)));
  for (std::int64_t i = place.rank, mine = 0; i < count; i += place.ranks, ++mine)
    passes[static_cast<std::size_t>(mine / place.micro_batch)].push_back(units[static_cast<std::size_t>(i)]);
  return passes;
}

}  // namespace muster::data
