// Orders for the cache's contents: blocks that are copied, go to the host or come back. They are collected here until
// the next step takes them along; steps are carried out in order, so that each finds what those before it left.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "generate/sequence.hpp"
#include "model/batch.hpp"

namespace muster::generate {

class BlockTraffic {
 public:
  void copy(std::int64_t from, std::int64_t to);
  // What it has computed goes to the host; its blocks are still its own.
  void save(Sequence& sequence);
  // Comes back into its blocks, of which it must have enough.
  void restore(Sequence& sequence);

  std::vector<model::BlockMove> take() { return std::exchange(moves_, {}); }

 private:
  std::vector<model::BlockMove> moves_;
  std::vector<std::int64_t> free_places_;
  std::int64_t places_ = 0;
};

}  // namespace muster::generate
