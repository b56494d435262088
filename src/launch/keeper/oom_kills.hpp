// How often the kernel has killed a process because memory was full.
#pragma once

#include <cstdint>
#include <filesystem>

namespace muster::launch {

// On this machine and in this process's control groups together: only the difference between two looks means something.
// root is a parameter for tests.
std::uint64_t oom_kills(const std::filesystem::path& root = "/");

}  // namespace muster::launch
