#include "generate/block_traffic.hpp"

namespace muster::generate {

using model::BlockMove;

void BlockTraffic::copy(std::int64_t from, std::int64_t to) { moves_.push_back({BlockMove::Kind::copy, from, to}); }

void BlockTraffic::save(Sequence& sequence) {
  const auto count = static_cast<std::size_t>(sequence.blocks.blocks_for(sequence.computed));
  for (std::size_t i = 0; i < count; ++i) {
    if (free_places_.empty()) free_places_.push_back(places_++);
    sequence.on_host.push_back(free_places_.back());
    free_places_.pop_back();
    moves_.push_back({BlockMove::Kind::to_host, sequence.blocks.blocks()[i], sequence.on_host.back()});
  }
}

void BlockTraffic::restore(Sequence& sequence) {
  for (std::size_t i = 0; i < sequence.on_host.size(); ++i) {
    moves_.push_back({BlockMove::Kind::from_host, sequence.on_host[i], sequence.blocks.blocks()[i]});
    free_places_.push_back(sequence.on_host[i]);
  }
  sequence.on_host.clear();
}

}  // namespace muster::generate
