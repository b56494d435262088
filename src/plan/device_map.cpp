#include "plan/device_map.hpp"

#include <fmt/format.h>

namespace muster::plan {

std::string to_string(Place place) {
  switch (place.kind) {
    case Place::Kind::gpu:
      return fmt::format("{}", place.gpu);
    case Place::Kind::cpu:
      return "cpu";
    case Place::Kind::disk:
      return "disk";
  }
  return {};
}

std::optional<Place> DeviceMap::find(std::string_view path) const {
  std::optional<Place> found;
  std::size_t longest = 0;
  for (const auto& [key, place] : entries) {
    const bool holds = key.empty() || (path.starts_with(key) && (path.size() == key.size() || path[key.size()] == '.'));
    if (!holds || (found && key.size() < longest)) continue;
    found = place;
    longest = key.size();
  }
  return found;
}

}  // namespace muster::plan
