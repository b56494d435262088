// How many GPUs one of muster's own commands wants.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "host/host.hpp"

namespace muster::host {

// The fewest with which its plan fits, if all of them were free: it is run with --num-gpus N --dry-run for one number
// after another. folder: a place for a few temporary files.
Result<int> planned_gpus(const HostSources& sources, const std::vector<std::string>& command,
                         const std::filesystem::path& folder);

}  // namespace muster::host
