// Where the time of a run's steps went.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "wire/train_event.hpp"

namespace muster::runs {

struct StepProfile {
  std::int64_t steps = 0;
  double seconds = 0;     // of all of them
  wire::StepParts parts;  // summed over them
};

// For the newest steps in events.jsonl. Absent: it has none, or does not say where their time went.
std::optional<StepProfile> read_step_profile(const std::filesystem::path& events);

// "of 40 steps, 0.52 s each: 81 % computing, 9 % waiting for other ranks, …".
std::string profile_text(const StepProfile& profile);
nlohmann::ordered_json profile_json(const StepProfile& profile);

}  // namespace muster::runs
