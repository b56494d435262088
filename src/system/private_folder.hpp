// Folders that no other user can look into.
#pragma once

#include <filesystem>
#include <system_error>

namespace muster {

// Creates a folder with mode 0700, and what is missing above it as usual. A folder that exists keeps its mode.
std::error_code make_private_folder(const std::filesystem::path& path);

}  // namespace muster
