// A search space: its points are settings of a trial to users and numbers on [-1, 1] to the search.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sweep/search/chance.hpp"
#include "sweep/parameter.hpp"

namespace muster::sweep {

struct Space {
  std::vector<Parameter> parameters;
};

// One number on [-1, 1] for each parameter, constants included.
using Point = std::vector<double>;

Settings settings_at(const Space& space, const Point& point);
// Nothing if a parameter is missing or has a value outside the space. Other settings are ignored.
std::optional<Point> point_of(const Space& space, const Settings& settings);
// The point of the same settings: everything that rounds to one value is one point.
Point snapped(const Space& space, const Point& point);

Point centre_of(const Space& space);
Point draw_point(const Space& space, Chance& chance);

// How many points there are; nothing if they cannot be counted.
std::optional<std::uint64_t> count_points(const Space& space);
// The points of a finite space in order, the last parameter changing fastest.
Settings grid_settings(const Space& space, std::uint64_t index);

}  // namespace muster::sweep
