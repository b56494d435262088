// Keys and values of the sequences that are being generated, in blocks: a sequence takes blocks as it grows and gives
// them back when it ends, so that none needs its longest length up front.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/primitives.hpp"

namespace muster::model {

struct CacheShape {
  std::int64_t layers = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  std::int64_t blocks = 0;
  std::int64_t block_tokens = 0;  // a multiple of 64
  at::ScalarType type = at::kFloat;
  at::Device device{at::kCPU};

  std::int64_t bytes() const;
};

class KeyValueCache;

// The blocks of one sequence; given back when this goes away. The cache must outlive it.
class CachedSequence {
 public:
  CachedSequence() = default;
  explicit CachedSequence(KeyValueCache& cache) : cache_(&cache) {}
  CachedSequence(CachedSequence&& other) noexcept { swap(other); }
  CachedSequence& operator=(CachedSequence&& other) noexcept {
    swap(other);
    return *this;
  }
  ~CachedSequence();

  // Room for this many tokens in all. False, and nothing changes, where the cache has no blocks left for it.
  bool reserve(std::int64_t tokens);
  const std::vector<std::int64_t>& blocks() const { return blocks_; }
  KeyValueCache& cache() const { return *cache_; }

 private:
  void swap(CachedSequence& other) noexcept;

  KeyValueCache* cache_ = nullptr;
  std::vector<std::int64_t> blocks_;
};

class KeyValueCache {
 public:
  explicit KeyValueCache(const CacheShape& shape);

  const CacheShape& shape() const { return shape_; }
  std::int64_t free_blocks() const { return static_cast<std::int64_t>(free_.size()); }

  // keys, values: [rows, kv_heads * head_size], of the positions from position on.
  void store(std::int64_t layer, const CachedSequence& sequence, std::int64_t position, const at::Tensor& keys,
             const at::Tensor& values);
  tensor::KeyValues view(std::int64_t layer, const CachedSequence& sequence) const;

 private:
  friend class CachedSequence;

  CacheShape shape_;
  std::vector<at::Tensor> keys_;  // by layer: [blocks, block_tokens, kv_heads, head_size]
  std::vector<at::Tensor> values_;
  std::vector<std::int64_t> free_;  // the lowest last
};

}  // namespace muster::model
