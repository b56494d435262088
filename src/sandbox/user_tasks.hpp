// How many processes and threads a user has.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>

namespace muster::sandbox {

// Processes that proc does not show are not counted.
std::uint64_t tasks_of(uid_t user, const std::filesystem::path& proc = "/proc");

}  // namespace muster::sandbox
