// The books of a key-value cache: which blocks are free, and how many sequences hold each of the others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster::generate {

class BlockPool {
 public:
  BlockPool(std::int64_t blocks, std::int64_t block_tokens);

  std::int64_t block_tokens() const { return block_tokens_; }
  std::int64_t size() const { return static_cast<std::int64_t>(holders_.size()); }
  std::int64_t free() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t blocks_for(std::int64_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }

 private:
  friend class BlockList;
  std::int64_t block_tokens_;
  std::vector<std::int64_t> holders_;  // by block
  std::vector<std::int64_t> free_;     // the lowest last
};

// The blocks of one sequence, in the order of its positions; given back when this goes away. The pool must outlive it.
class BlockList {
 public:
  explicit BlockList(BlockPool& pool) : pool_(&pool) {}
  BlockList(BlockList&& other) noexcept { swap(other); }
  BlockList& operator=(BlockList&& other) noexcept {
    swap(other);
    return *this;
  }
  ~BlockList() { clear(); }

  const std::vector<std::int64_t>& blocks() const { return blocks_; }
  std::int64_t blocks_for(std::int64_t tokens) const { return pool_->blocks_for(tokens); }
  // Room for this many tokens in all. False, and nothing changes, where too few blocks are free.
  bool reserve(std::int64_t tokens);
  // Holds these, too: blocks that another sequence has filled and nobody writes to any more.
  void share(std::span<const std::int64_t> blocks);
  void clear();

 private:
  void swap(BlockList& other) noexcept;

  BlockPool* pool_ = nullptr;
  std::vector<std::int64_t> blocks_;
};

}  // namespace muster::generate
