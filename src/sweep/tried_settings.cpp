#include "sweep/tried_settings.hpp"

#include <fmt/format.h>

namespace muster::sweep {

TriedSettings::TriedSettings(const Space& space, const History& history) : space_(space) {
  for (const Observation& observation : history.finished)
    if (point_of(space, observation.settings)) keys_.insert(key_of(observation.settings));
  for (const Settings& settings : history.running)
    if (point_of(space, settings)) keys_.insert(key_of(settings));
}

std::string TriedSettings::key_of(const Settings& settings) const {
  std::string key;
  for (const Parameter& parameter : space_.parameters) {
    const Value* value = find(settings, parameter.path);
    if (value == nullptr) continue;
    const auto number = number_of(*value);
    key += number ? fmt::format("{}", *number) : to_yaml(*value);
    key += '\n';
  }
  return key;
}

std::optional<Suggestion> first_untried_of_grid(const Space& space, const TriedSettings& tried) {
  const std::uint64_t count = count_points(space).value_or(0);
  for (std::uint64_t index = 0; index < count; ++index)
    if (Settings settings = grid_settings(space, index); !tried.contains(settings)) return Suggestion{settings, {}};
  return std::nullopt;
}

std::optional<Suggestion> first_untried(const Space& space, const TriedSettings& tried,
                                        const std::function<Point(std::uint64_t index)>& row) {
  constexpr std::uint64_t most_in_vain = 20000;
  for (std::uint64_t index = 0; index < tried.count() + most_in_vain; ++index)
    if (Settings settings = settings_at(space, row(index)); !tried.contains(settings)) return Suggestion{settings, {}};
  return first_untried_of_grid(space, tried);
}

}  // namespace muster::sweep
