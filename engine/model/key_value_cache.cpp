#include "model/key_value_cache.hpp"

#include <algorithm>

#include "tensor/element_types.hpp"

namespace muster::model {

std::int64_t CacheShape::bytes() const {
  return 2 * layers * blocks * block_tokens * kv_heads * head_size * static_cast<std::int64_t>(c10::elementSize(type));
}

CachedSequence::~CachedSequence() {
  if (cache_ == nullptr) return;
  cache_->free_.insert(cache_->free_.end(), blocks_.rbegin(), blocks_.rend());
}

void CachedSequence::swap(CachedSequence& other) noexcept {
  std::swap(cache_, other.cache_);
  std::swap(blocks_, other.blocks_);
}

bool CachedSequence::reserve(std::int64_t tokens) {
  const std::int64_t block_tokens = cache_->shape_.block_tokens;
  const std::int64_t wanted = (tokens + block_tokens - 1) / block_tokens - static_cast<std::int64_t>(blocks_.size());
  if (wanted > cache_->free_blocks()) return false;
  for (std::int64_t i = 0; i < wanted; ++i) {
    blocks_.push_back(cache_->free_.back());
    cache_->free_.pop_back();
  }
  return true;
}

KeyValueCache::KeyValueCache(const CacheShape& shape) : shape_(shape) {
  const auto options = at::TensorOptions().dtype(shape.type).device(shape.device);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    keys_.push_back(at::empty({shape.blocks, shape.block_tokens, shape.kv_heads, shape.head_size}, options));
    values_.push_back(at::empty_like(keys_.back()));
  }
  for (std::int64_t block = shape.blocks - 1; block >= 0; --block) free_.push_back(block);
}

void KeyValueCache::store(std::int64_t layer, const CachedSequence& sequence, std::int64_t position,
                          const at::Tensor& keys, const at::Tensor& values) {
  const auto at_layer = static_cast<std::size_t>(layer);
  const std::int64_t rows = keys.size(0);
  for (std::int64_t done = 0; done < rows;) {
    const std::int64_t block = (position + done) / shape_.block_tokens;
    const std::int64_t offset = (position + done) % shape_.block_tokens;
    const std::int64_t count = std::min(rows - done, shape_.block_tokens - offset);
    const std::int64_t stored = sequence.blocks().at(static_cast<std::size_t>(block));
    const auto put = [&](at::Tensor& storage, const at::Tensor& from) {
      storage.select(0, stored)
          .narrow(0, offset, count)
          .copy_(from.narrow(0, done, count).view({count, shape_.kv_heads, shape_.head_size}));
    };
    put(keys_[at_layer], keys);
    put(values_[at_layer], values);
    done += count;
  }
}

tensor::KeyValues KeyValueCache::view(std::int64_t layer, const CachedSequence& sequence) const {
  const auto at_layer = static_cast<std::size_t>(layer);
  return {keys_[at_layer], values_[at_layer], sequence.blocks()};
}

}  // namespace muster::model
