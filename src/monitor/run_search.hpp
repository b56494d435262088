// The run that a process works on.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

namespace muster::monitor {

// The folder of a run whose lock this process, or one that it started, has open; however deep below it. Nothing where
// there is none, or where it is not ours to see.
std::optional<std::filesystem::path> run_of_process(pid_t pid, const std::filesystem::path& proc = "/proc");

}  // namespace muster::monitor
