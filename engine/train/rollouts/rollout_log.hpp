// The answers of each round in the run's folder: for people, and for a run that is resumed in the middle of a round, whose
// weights could not draw them again.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "train/rollouts/rollout.hpp"

namespace muster::train {

// What people read beside the numbers.
struct RolloutTexts {
  std::function<std::string(const Rollout&)> question, answer;
  std::vector<std::string_view> functions;  // that judged: the names of Rollout::parts
  // The answers of an episode, and what the environment said after each but the last.
  std::function<std::vector<std::string>(const Rollout&)> turns = {};
};

// FOLDER/rollouts/round-000001.jsonl for the first round.
std::filesystem::path rollout_log_path(const std::filesystem::path& run_folder, std::int64_t round);

// JSON lines: one of the whole, then one for each answer. Written as a whole or not at all. What is not judged yet says
// so.
Result<void> write_rollouts(const std::filesystem::path& path, const Round& round, const RolloutTexts& texts);

// Refused: a file that is not there, is not whole, or was changed.
Result<Round> read_rollouts(const std::filesystem::path& path);

}  // namespace muster::train
