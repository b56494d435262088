// What all blocks of one forward pass share: a batch, the way its device reads it.
#pragma once

#include <optional>

#include "model/batch.hpp"
#include "model/key_value_cache.hpp"
#include "model/parameter.hpp"
#include "model/rotary.hpp"
#include "tensor/primitives.hpp"
#include "tensor/row_ops.hpp"

namespace muster::model {

// Inputs of adapters that a training pass leaves out. Which ones follows from the row and the adapter alone, so that
// passes, ranks and recomputation see the same.
struct PassDropout {
  double share = 0;
  at::Tensor row_keys;  // [rows], int64, on the device: a number that no other row of the run has

  tensor::Dropout of(ParameterId adapter) const {
    return {share, row_keys, static_cast<std::int64_t>(adapter)};
  }
};

struct Pass {
  at::Tensor tokens;  // [rows], int64
  tensor::AttentionTables tables;
  RotaryRows rotary;                        // undefined tensors where nothing is turned
  KeyValueCache* cache = nullptr;           // nullptr: sequences begin at 0 and nothing is kept
  std::vector<std::int64_t> sequence_rows;  // of each part of the batch
  std::optional<PassDropout> dropout;       // absent: nothing is left out
  std::vector<at::Tensor> without_adapter;  // of each adapter: [rows, 1], bool; empty: all rows have the first one

  tensor::LayerCache layer_cache(std::int64_t layer) const {
    return cache == nullptr ? tensor::LayerCache{} : cache->layer(layer);
  }
};

// The whole numbers of a batch, one after another in one tensor, so that one copy brings all of them to the device.
class PassNumbers {
 public:
  // block_tokens: of the cache; 0: there is none. adapters: how many the model has.
  PassNumbers(const Batch& batch, std::int64_t block_tokens, std::int64_t adapters);
  // Each row is a sequence of its own. They are padded to this many with rows that do not matter, whose keys go to the
  // cache's block spare_block, and there is room for this many blocks of each. So different batches have equally many
  // numbers.
  PassNumbers(const Batch& batch, std::int64_t block_tokens, std::int64_t adapters, std::int64_t rows,
              std::int64_t most_blocks, std::int64_t spare_block);

  // On the host.
  const at::Tensor& values() const { return values_; }
  // A pass that reads its numbers from values, which holds those of this object or will hold them. Without rotary rows.
  Pass pass(const at::Tensor& values, KeyValueCache* cache) const;

 private:
  void fill(const Batch& batch);

  std::int64_t rows_;
  std::int64_t singles_ = 0;
  std::int64_t most_blocks_ = 0;
  std::int64_t block_tokens_;
  std::int64_t adapters_;  // 0 where rows do not choose
  std::vector<tensor::AttentionPart> parts_;
  at::Tensor values_;  // tokens, positions, slots, single rows, single blocks, adapters
};

}  // namespace muster::model
