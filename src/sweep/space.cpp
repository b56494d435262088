#include "sweep/space.hpp"

namespace muster::sweep {

Settings settings_at(const Space& space, const Point& point) {
  Settings settings;
  for (std::size_t i = 0; i < space.parameters.size(); ++i)
    settings.push_back({space.parameters[i].path, from_unit(space.parameters[i], point[i])});
  return settings;
}

std::optional<Point> point_of(const Space& space, const Settings& settings) {
  Point point;
  for (const Parameter& parameter : space.parameters) {
    const Value* value = find(settings, parameter.path);
    const auto unit = value != nullptr ? to_unit(parameter, *value) : std::nullopt;
    if (!unit) return std::nullopt;
    point.push_back(*unit);
  }
  return point;
}

Point snapped(const Space& space, const Point& point) {
  Point result = point;
  for (std::size_t i = 0; i < point.size(); ++i) {
    const Parameter& parameter = space.parameters[i];
    if (count_values(parameter)) result[i] = to_unit(parameter, from_unit(parameter, point[i])).value_or(point[i]);
  }
  return result;
}

Point centre_of(const Space& space) {
  Point point;
  for (const Parameter& parameter : space.parameters) point.push_back(parameter.centre);
  return point;
}

Point draw_point(const Space& space, Chance& chance) {
  Point point;
  for (const Parameter& parameter : space.parameters) point.push_back(draw_unit(parameter, chance.share()));
  return point;
}

std::optional<std::uint64_t> count_points(const Space& space) {
  constexpr std::uint64_t beyond_counting = std::uint64_t{1} << 53;
  std::uint64_t product = 1;
  for (const Parameter& parameter : space.parameters) {
    const auto count = count_values(parameter);
    if (!count || *count > beyond_counting / product) return std::nullopt;
    product *= *count;
  }
  return product;
}

Settings grid_settings(const Space& space, std::uint64_t index) {
  Settings settings(space.parameters.size());
  for (std::size_t i = space.parameters.size(); i-- > 0;) {
    const Parameter& parameter = space.parameters[i];
    const std::uint64_t count = count_values(parameter).value();
    settings[i] = {parameter.path, value_at_index(parameter, index % count)};
    index /= count;
  }
  return settings;
}

}  // namespace muster::sweep
