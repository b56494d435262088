// Reading and writing whole files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace muster {

// The text of a file; a missing or unreadable one is an error that names it and the reason. So is one that may have no
// end (a device, a named pipe) or is over 1 GiB; a pipe that a shell passes as /dev/fd/N is read.
Result<std::string> read_file(const std::filesystem::path& path);

// Readers see the old text or the new one, never a part: written next to it, flushed, then renamed.
Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view text);

// False also for one that may not be looked at.
bool path_exists(const std::filesystem::path& path);

// The system's text for the current errno, for messages.
std::string system_reason();

}  // namespace muster
