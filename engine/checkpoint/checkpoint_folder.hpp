// The checkpoints of a run: which there are, and how they are removed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace muster::checkpoint {

struct FoundCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path path;  // "…/step-100"
  bool operator==(const FoundCheckpoint&) const = default;
};

// "step-100"
std::string checkpoint_name(std::int64_t step);
// ".step-100.partial-ATTEMPT": where a save is filled.
std::string staging_name(std::int64_t step, std::string_view attempt);

// Folders named step-N that hold a manifest, newest first, not looked into further. None where the folder is missing.
std::vector<FoundCheckpoint> find_checkpoints(const std::filesystem::path& folder);

// Removes the oldest ones up to this step, until as many as keep (at least 1) of them are left, and returns what was
// removed. Later ones, of steps that a resumed run has not reached, are neither counted nor removed.
Result<std::vector<std::filesystem::path>> remove_oldest(const std::filesystem::path& folder, std::int64_t step,
                                                         int keep);

// Renames checkpoints of later steps to step-N.set-aside, so that nobody resumes from them: for a run that continues
// from an earlier one and reaches these steps again. Returns their new names.
Result<std::vector<std::filesystem::path>> set_aside_newer(const std::filesystem::path& folder, std::int64_t step);

// Removes what killed saves and removals left. For the start of a run, when no save is under way.
void remove_leftovers(const std::filesystem::path& folder);
// The same for saves of this step alone, except this attempt's.
void remove_leftovers(const std::filesystem::path& folder, std::int64_t step, std::string_view attempt);

}  // namespace muster::checkpoint
