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

}  // namespace muster::plan
