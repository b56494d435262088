#include "runs/step_profile.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "json/fields.hpp"
#include "store/events_file.hpp"

namespace muster::runs {
namespace {

using Json = nlohmann::ordered_json;

void add(wire::StepParts& sum, const wire::StepParts& more) {
  sum.loading += more.loading;
  sum.compute += more.compute;
  sum.exposed += more.exposed;
  sum.update += more.update;
  sum.host += more.host;
  sum.communication += more.communication;
  if (more.sampling) sum.sampling = sum.sampling.value_or(0) + *more.sampling;
  if (more.judging) sum.judging = sum.judging.value_or(0) + *more.judging;
}

}  // namespace

std::optional<StepProfile> read_step_profile(const std::filesystem::path& events) {
  const auto found = store::read_last_events(events);
  if (!found) return std::nullopt;
  StepProfile profile;
  for (const Json& event : *found) {
    if (event.value("event", Json()) != "step") continue;
    wire::StepParts parts;
    double seconds = 0;
    if (read_json(event.value("parts", Json()), parts) ||
        read_json(event.value("seconds", Json()), seconds))
      continue;
    ++profile.steps;
    profile.seconds += seconds;
    add(profile.parts, parts);
  }
  if (profile.steps == 0 || profile.seconds <= 0) return std::nullopt;
  return profile;
}

std::string profile_text(const StepProfile& profile) {
  const wire::StepParts& parts = profile.parts;
  const std::array named{std::pair{parts.compute, "computing"}, std::pair{parts.exposed, "waiting for other ranks"},
                         std::pair{parts.update, "in the optimizer"}, std::pair{parts.loading, "waiting for data"},
                         std::pair{parts.host, "on the rest"}};
  std::string text = fmt::format("of the last {} step{}, {:.3g} s each: ", profile.steps, profile.steps == 1 ? "" : "s",
                                 profile.seconds / static_cast<double>(profile.steps));
  if (parts.sampling)
    text += fmt::format("{:.1f} % sampling answers, {:.1f} % judging them, ", 100 * *parts.sampling / profile.seconds,
                        100 * parts.judging.value_or(0) / profile.seconds);
  for (const auto& [seconds, words] : named)
    text += fmt::format("{:.1f} % {}, ", 100 * seconds / profile.seconds, words);
  return text +
         fmt::format("with exchanges under way {:.1f} % of the time", 100 * parts.communication / profile.seconds);
}

Json profile_json(const StepProfile& profile) {
  return {{"steps", profile.steps}, {"seconds", profile.seconds}, {"parts", to_json(profile.parts)}};
}

}  // namespace muster::runs
