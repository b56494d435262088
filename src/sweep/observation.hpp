// The result of a trial, and observations.jsonl, which holds one per line.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "sweep/goal.hpp"
#include "sweep/value.hpp"

namespace muster::sweep {

struct Observation {
  std::string trial;  // "NAME.r.3"
  Settings settings;
  std::optional<double> score;  // absent: the trial failed
  double cost_seconds = 0;
  bool stopped_early = false;
  std::string reason;  // of a failure, in words

  // A NaN score is a failure, too.
  bool failed() const { return !score || !std::isfinite(*score); }
  bool operator==(const Observation&) const = default;
};

// {"trial", "parameters", "score", "cost_seconds", "failed"}, and "stopped_early" and "reason" if they say something.
nlohmann::ordered_json to_json(const Observation& observation);
// The line of observations.jsonl, with its newline.
std::string to_line(const Observation& observation);
Result<Observation> observation_from_json(const nlohmann::ordered_json& json, std::string_view where);

// The observations of a file's text in the order of their trials' first lines; a later line about the same trial
// replaces an earlier one. A last line that was cut off is left out; any other invalid line is an error.
// Unknown fields are ignored.
Result<std::vector<Observation>> read_observations(std::string_view text, std::string_view source);

}  // namespace muster::sweep
