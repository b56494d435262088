// The best way to lay the modules of a model, in order, over devices: exact, and near-linear in modules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "plan/device_map.hpp"

namespace muster::plan {

// A run of modules that stay together: a block, an embedding, a norm.
struct Unit {
  std::string path;            // "model.layers.17"; its place in the map
  std::int64_t bytes = 0;      // what it adds wherever it is: weights, KV cache, buffers
  std::int64_t workspace = 0;  // what computing it needs for a moment: the largest of a device's units counts once
};

// Two units that share a tensor (a tied embedding and its head). On one device the bytes exist once; apart they exist
// twice, the second time on the second unit's device. A tensor that three units share is two pairs: first and
// second, second and third. So a unit never brings less than it shares onwards:
//   bytes + what it shares as second >= what it shares as first.
struct SharedBytes {
  std::size_t first = 0;  // before second
  std::size_t second = 0;
  std::int64_t bytes = 0;  // counted in the first unit's bytes, not in the second's
};

// Sums of everything stay far below what fits 64 bits. A device whose size is not known has this.
constexpr std::int64_t largest_capacity = std::int64_t{1} << 60;

struct SplitDevice {
  Place place;
  std::int64_t capacity = 0;  // bytes; a device of capacity 0 stays empty
  std::int64_t fixed = 0;     // used on it before any unit: context, framework
};

enum class SplitGoal {
  // The largest relative load, used / capacity, over the GPUs that hold something is as small as it can be: exactly, no
  // rounding. Among the splits that attain it, units that share a tensor stay together where that costs nothing (the
  // largest tensor first); then each device in order takes the part whose load is nearest to the mean of what is left.
  balanced,
  // The first GPU gets as few units as the others leave over, the others are balanced.
  low_first,
  // Each device in order takes units as long as they fit; one that cannot hold the next unit stays empty. Finds a split
  // whenever one exists.
  sequential,
};

struct SplitRequest {
  std::vector<Unit> units;  // in the order of computing
  std::vector<SharedBytes> shared;
  std::vector<SplitDevice> devices;  // GPUs in the order of use, then cpu and disk where they are allowed
  SplitGoal goal = SplitGoal::balanced;
};

struct Split {
  std::vector<std::size_t> device_of;  // per unit: position in devices; never decreases
  std::vector<std::int64_t> used;      // per device: fixed + units + workspace + duplicates
  std::int64_t duplicated = 0;         // bytes that exist twice because their two units are apart
  double largest_load = 0;             // over GPUs that hold something: used / capacity
};

// Why no split exists: the fewest bytes that one device alone would have to gain for everything to fit.
struct Shortfall {
  std::int64_t bytes = 0;
  std::size_t device = 0;  // which one: position in devices
};

// Contiguous: a device holds consecutive units, and devices are used in their order; a device may stay empty. cpu and
// disk get only the last units, as few as possible, when the GPUs cannot hold everything (cpu first, in the order of
// devices); the goal then holds for the GPUs and what they hold. bad_input: a request that makes no sense.
Result<std::variant<Split, Shortfall>> find_split(const SplitRequest& request);

// The same; a shortfall is an Error::refused that names the bytes.
Result<Split> split_layers(const SplitRequest& request);

// The accounting of a given assignment; for comparing planners.
Split assess_split(const SplitRequest& request, std::vector<std::size_t> device_of);

}  // namespace muster::plan
