// Device maps with the fewest entries that say the same: accelerate's clean_device_map.
#pragma once

#include <vector>

#include "plan/device_map.hpp"
#include "plan/model_entry.hpp"

namespace muster::plan {

struct PlacedEntry {
  Entry entry{};
  Place place;
};

// One line per entry, in order.
DeviceMap plain_map(const spec::ModelShape& shape, const std::vector<PlacedEntry>& placed);

// Where more than one entry lies below a module (or the root) and all have one place, the module stands for them, at
// the place of the first. No entry may lie below another.
DeviceMap clean_map(const spec::ModelShape& shape, const std::vector<PlacedEntry>& placed);

}  // namespace muster::plan
