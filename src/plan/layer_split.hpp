// The best way to lay the modules of a model, in their order, over devices: exact, and near-linear in modules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "plan/device_map.hpp"

namespace muster::plan {

// A run of modules that stay together: a block, an embedding, a norm.
struct Unit {
  std::string path;            // "model.layers.17"; its place in the map
  std::int64_t bytes = 0;      // what it adds wherever it lies: weights, KV cache, buffers
  std::int64_t workspace = 0;  // what computing it needs for a moment: the largest of a device's units counts once
};

// Two units that share a tensor (a tied embedding and its head). On one device the bytes are there once; apart they are
// there twice.
struct SharedBytes {
  std::size_t first = 0;
  std::size_t second = 0;
  std::int64_t bytes = 0;  // counted in the first unit's bytes, not in the second's
};

struct SplitDevice {
  Place place;
  std::int64_t capacity = 0;  // bytes
  std::int64_t fixed = 0;     // taken on it before any unit: context, framework
};

enum class SplitGoal {
  balanced,    // the largest relative load, used / capacity, is as small as it can be
  low_first,   // the first device gets as little as fits, the others are balanced
  sequential,  // devices are filled in order
};

struct SplitRequest {
  std::vector<Unit> units;  // in the order of computing
  std::vector<SharedBytes> shared;
  std::vector<SplitDevice> devices;  // GPUs in the order of use, then cpu and disk where they are allowed
  SplitGoal goal = SplitGoal::balanced;
};

struct Split {
  std::vector<std::size_t> device_of;  // per unit: position in devices; never falls
  std::vector<std::int64_t> used;      // per device: fixed + units + workspace + duplicates
  std::int64_t duplicated = 0;         // bytes that are there twice because their two units lie apart
  double largest_load = 0;             // over GPUs that hold something: used / capacity
};

// Contiguous: a device holds consecutive units, and devices are used in their order; a device may stay empty. cpu and
// disk are only used when the GPUs cannot hold everything. Nothing fits: an Error::refused with the bytes missing.
Result<Split> split_layers(const SplitRequest& request);

// The largest relative load of a given assignment, by the same accounting; for comparing planners.
Split assess_split(const SplitRequest& request, std::vector<std::size_t> device_of);

}  // namespace muster::plan
