// Keys and values of the sequences that are being generated, in blocks of tokens. Batches say which block is whose:
// this only holds them, so that the ranks of a model that is split by layers can all follow one rank's books.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "model/batch.hpp"
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

class KeyValueCache {
 public:
  explicit KeyValueCache(const CacheShape& shape);

  const CacheShape& shape() const { return shape_; }
  // An extra block of a GPU's cache, for rows whose results do not matter.
  std::int64_t spare_block() const { return shape_.blocks; }

  tensor::LayerCache layer(std::int64_t layer) const {
    return {keys_[static_cast<std::size_t>(layer)], values_[static_cast<std::size_t>(layer)]};
  }
  // One after another.
  void move(std::span<const BlockMove> moves);

 private:
  CacheShape shape_;
  std::vector<at::Tensor> keys_;  // by layer: [blocks, block_tokens, kv_heads, head_size]
  std::vector<at::Tensor> values_;
  std::map<std::int64_t, at::Tensor> on_host_;  // by place: [2, layers, block_tokens, kv_heads, head_size]
};

}  // namespace muster::model
