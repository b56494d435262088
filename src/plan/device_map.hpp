// Where the modules of one model go: which device each is on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_count.hpp"
#include "base/result.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::plan {

// A place for modules. GPUs are numbered as the process sees them (cuda:N).
struct Place {
  enum class Kind { gpu, cpu, disk };
  Kind kind = Kind::gpu;
  int gpu = 0;
  auto operator<=>(const Place&) const = default;
};

constexpr Place on_gpu(int number) { return {Place::Kind::gpu, number}; }
constexpr Place on_cpu() { return {Place::Kind::cpu, 0}; }
constexpr Place on_disk() { return {Place::Kind::disk, 0}; }

// "0", "cpu", "disk": as device maps write it.
std::string to_string(Place place);

// How much one place may hold. The order of a list of these is the order of use: GPUs ascending, cpu, disk.
struct Budget {
  Place place;
  ByteCount bytes;
  double fraction = 0;  // of one more byte, in [0, 1): accelerate's 90 % of a budget is not a whole number
  bool operator==(const Budget&) const = default;
};

// Module path → place, in the order of placement; "" is the whole model. accelerate's device_map.
struct DeviceMap {
  std::vector<std::pair<std::string, Place>> entries;

  std::optional<Place> find(std::string_view path) const;  // of the entry that contains this module or tensor
  bool operator==(const DeviceMap&) const = default;
};

// A map as the user wrote it: {"model.embed_tokens": "0", "model.layers.0": "cuda:1", …}; keys name modules or single
// tensors, "" the whole model. Every tensor must be covered once: unknown modules, places that have no budget, modules
// that lie in another key's and modules left out are all named in one bad_input. The entries keep the order as written.
Result<DeviceMap> custom_map(const spec::ModelShape& shape,
                             const std::vector<std::pair<std::string, std::string>>& written,
                             const std::vector<Budget>& budgets);

}  // namespace muster::plan
