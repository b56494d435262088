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

}  // namespace muster::sweep
