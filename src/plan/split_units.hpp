// Between a model and a split of it: its modules as units, and the split as a device map and as ranges of layers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/device_map.hpp"
#include "plan/layer_split.hpp"
#include "plan/model_entry.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::plan {

enum class UnitRole { before_blocks, block, after_blocks };  // embeddings; layers; the last norm and the head

// A model's units in the order of computing, which is that of definition: blocks (modules of classes that are never
// split), and outside of blocks the childless modules and the single tensors that hold parameters. What holds only
// buffers (rotary_emb) goes with the first block, wherever it was defined.
struct SplitUnits {
  std::vector<Unit> units;  // with the bytes of their tensors; a caller adds caches and workspace
  std::vector<SharedBytes> shared;
  std::vector<UnitRole> roles;               // per unit
  std::vector<std::vector<Entry>> contents;  // per unit: the modules and tensors it stands for
};

// tensor_bytes: what each tensor takes, by its number; second names of a tied tensor are ignored.
SplitUnits split_units(const spec::ModelShape& shape, std::span<const std::int64_t> tensor_bytes);

// Every module that holds a tensor is covered; modules that share a place are one entry, as accelerate writes it.
DeviceMap to_device_map(const spec::ModelShape& shape, const SplitUnits& units, const Split& split,
                        std::span<const SplitDevice> devices);

// What one device holds, for a pipeline: blocks [first_block, end_block).
struct LayerRange {
  Place place;
  std::size_t first_block = 0;
  std::size_t end_block = 0;
  bool has_embedding = false;  // any unit before the blocks
  bool has_head = false;       // the last unit, where it comes after the blocks
  bool operator==(const LayerRange&) const = default;
};

// One per device, in order; one that holds no block has first_block == end_block.
std::vector<LayerRange> layer_ranges(const SplitUnits& units, const Split& split, std::span<const SplitDevice> devices);

}  // namespace muster::plan
