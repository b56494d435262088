#include "sweep/observation.hpp"

#include <fmt/format.h>

#include <map>

#include "base/text.hpp"
#include "json/json_text.hpp"

namespace muster::sweep {

using json = nlohmann::ordered_json;

namespace {

Error refuse(std::string_view where, std::string_view what) {
  return {Error::Kind::bad_input, fmt::format("{}: {}", where, what),
          "an observation is {\"trial\": \"NAME.r.0\", \"parameters\": {\"training.learning_rate\": 0.001}, \"score\": "
          "0.5, \"cost_seconds\": 12, \"failed\": false}"};
}

Result<Settings> settings_from_json(const json& object, std::string_view where) {
  Settings settings;
  for (const auto& [path, written] : object.items()) {
    const auto value = value_from_json(written);
    if (!value) return refuse(where, fmt::format("{} is {}", path, shown(written)));
    settings.push_back({path, *value});
  }
  return settings;
}

}  // namespace

json to_json(const Observation& observation) {
  json object{{"trial", observation.trial},
              {"parameters", to_json(observation.settings)},
              {"score", observation.failed() ? json() : json(*observation.score)},
              {"cost_seconds", observation.cost_seconds},
              {"failed", observation.failed()}};
  if (observation.stopped_early) object["stopped_early"] = true;
  if (!observation.reason.empty()) object["reason"] = observation.reason;
  return object;
}

std::string to_line(const Observation& observation) {
  return to_json(observation).dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<Observation> observation_from_json(const json& object, std::string_view where) {
  Observation observation;
  const auto trial = object.find("trial"), parameters = object.find("parameters"), score = object.find("score"),
             cost = object.find("cost_seconds"), failed = object.find("failed"), reason = object.find("reason");
  if (trial == object.end() || !trial->is_string()) return refuse(where, "\"trial\" is not text");
  observation.trial = trial->get<std::string>();
  if (parameters == object.end() || !parameters->is_object()) return refuse(where, "\"parameters\" is not an object");
  auto settings = settings_from_json(*parameters, where);
  if (!settings) return settings.error();
  observation.settings = std::move(*settings);
  if (cost != object.end() && !cost->is_null()) {
    if (!cost->is_number() || cost->get<double>() < 0)
      return refuse(where, "\"cost_seconds\" is not a number of 0 or more");
    observation.cost_seconds = cost->get<double>();
  }
  const bool has_score = score != object.end() && score->is_number();
  const bool has_failed = failed != object.end() && failed->is_boolean() && failed->get<bool>();
  if (!has_failed && !has_score) return refuse(where, "\"score\" is not a number, and the trial has not failed");
  if (!has_failed) observation.score = score->get<double>();
  const auto early = object.find("stopped_early");
  observation.stopped_early = early != object.end() && early->is_boolean() && early->get<bool>();
  if (reason != object.end() && reason->is_string()) observation.reason = reason->get<std::string>();
  return observation;
}

Result<std::vector<Observation>> read_observations(std::string_view text, std::string_view source) {
  std::vector<Observation> observations;
  std::map<std::string, std::size_t> places;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const bool whole = end != std::string_view::npos;
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(whole ? end + 1 : text.size());
    ++number;
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", source, number);
    const auto object = parse_ordered_json_object(line, where);
    auto observation = object ? observation_from_json(*object, where) : Result<Observation>(object.error());
    if (!observation && !whole) break;
    if (!observation) return observation.error();
    const auto [place, fresh] = places.emplace(observation->trial, observations.size());
    if (fresh)
      observations.push_back(std::move(*observation));
    else
      observations[place->second] = std::move(*observation);
  }
  return observations;
}

}  // namespace muster::sweep
