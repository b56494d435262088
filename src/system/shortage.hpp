// What the system lacks for the moment: disk, quota, processes, open files, memory. What failed because of that may
// succeed later, and is not a user's mistake.
#pragma once

#include <cstddef>
#include <filesystem>

namespace muster {

// reason: an errno.
bool is_shortage(int reason);

// Whether a file of this many bytes could be written in this folder now. Also true if it fails for another reason than
// a shortage.
bool has_room(const std::filesystem::path& folder, std::size_t bytes = 64 * 1024);

}  // namespace muster
