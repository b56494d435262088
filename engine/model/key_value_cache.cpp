#include "model/key_value_cache.hpp"

#include <algorithm>

#include "tensor/element_types.hpp"

namespace muster::model {

std::int64_t CacheShape::bytes() const {
  return 2 * layers * blocks * block_tokens * kv_heads * head_size * static_cast<std::int64_t>(c10::elementSize(type));
}

KeyValueCache::KeyValueCache(const CacheShape& shape) : shape_(shape) {
  const auto options = at::TensorOptions().dtype(shape.type).device(shape.device);
  const std::int64_t blocks = shape.blocks + (shape.device.is_cuda() ? 1 : 0);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    keys_.push_back(at::empty({blocks, shape.block_tokens, shape.kv_heads, shape.head_size}, options));
    values_.push_back(at::empty_like(keys_.back()));
  }
}

void KeyValueCache::move(std::span<const BlockMove> moves) {
  // All tensors of the cache in one order, and for each the part of a host place that is its own.
  const auto each = [&](auto&& work) {
    for (std::size_t layer = 0; layer < keys_.size(); ++layer) {
      work(keys_[layer], 0, static_cast<std::int64_t>(layer));
      work(values_[layer], 1, static_cast<std::int64_t>(layer));
    }
  };
  for (const BlockMove& move : moves) {
    if (move.kind == BlockMove::Kind::copy) {
      each([&](at::Tensor& storage, std::int64_t, std::int64_t) {
        storage.select(0, move.to).copy_(storage.select(0, move.from));
      });
    } else if (move.kind == BlockMove::Kind::to_host) {
      const at::Tensor place =
          at::empty({2, shape_.layers, shape_.block_tokens, shape_.kv_heads, shape_.head_size}, at::dtype(shape_.type));
      each([&](at::Tensor& storage, std::int64_t half, std::int64_t layer) {
        place[half][layer].copy_(storage.select(0, move.from));
      });
      on_host_[move.to] = place;
    } else {
      const at::Tensor place = on_host_.at(move.from);
      each([&](at::Tensor& storage, std::int64_t half, std::int64_t layer) {
        storage.select(0, move.to).copy_(place[half][layer]);
      });
      on_host_.erase(move.from);
    }
  }
}

}  // namespace muster::model
