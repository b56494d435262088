#include "generate/block_pool.hpp"

#include <utility>

namespace muster::generate {

BlockPool::BlockPool(std::int64_t blocks, std::int64_t block_tokens)
    : block_tokens_(block_tokens), holders_(static_cast<std::size_t>(blocks)) {
  for (std::int64_t block = blocks - 1; block >= 0; --block) free_.push_back(block);
}

void BlockList::swap(BlockList& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(blocks_, other.blocks_);
}

bool BlockList::reserve(std::int64_t tokens) {
  const std::int64_t wanted = pool_->blocks_for(tokens) - static_cast<std::int64_t>(blocks_.size());
  if (wanted > pool_->free()) return false;
  for (std::int64_t i = 0; i < wanted; ++i) {
    blocks_.push_back(pool_->free_.back());
    pool_->free_.pop_back();
    ++pool_->holders_[static_cast<std::size_t>(blocks_.back())];
  }
  return true;
}

void BlockList::share(std::span<const std::int64_t> blocks) {
  for (const std::int64_t block : blocks) {
    ++pool_->holders_[static_cast<std::size_t>(block)];
    blocks_.push_back(block);
  }
}

void BlockList::clear() {
  if (pool_ == nullptr) return;
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block)
    if (--pool_->holders_[static_cast<std::size_t>(*block)] == 0) pool_->free_.push_back(*block);
  blocks_.clear();
}

}  // namespace muster::generate
