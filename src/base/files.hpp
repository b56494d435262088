// Whole files in and out.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace muster {

// The text of a file; a missing or unreadable one is an error that names it and the reason.
Result<std::string> read_file(const std::filesystem::path& path);

// Readers see the old text or the new one, never a part: written beside, flushed, then renamed.
Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view text);

// The system's words for the current errno, for messages.
std::string system_reason();

}  // namespace muster
