// The run that a process works on.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

namespace muster::monitor {

// The folder of a run whose lock this process, or any descendant of it, has open. Nothing if
// there is none, or if we are not allowed to see it.
std::optional<std::filesystem::path> run_of_process(pid_t pid, const std::filesystem::path& proc = "/proc");

}  // namespace muster::monitor
