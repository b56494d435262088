// Where muster keeps what belongs to a user and outlives a command.
#pragma once

#include <filesystem>
#include <optional>

namespace muster {

// MUSTER_STATE as an absolute path, else ~/.local/state/muster. Nothing if neither MUSTER_STATE nor HOME is set. The
// folder need not exist.
std::optional<std::filesystem::path> state_home();

}  // namespace muster
