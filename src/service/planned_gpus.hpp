// How many GPUs a command of muster's own wants.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "service/host.hpp"

namespace muster::service {

// The fewest with which its plan fits, were all of them free: it is asked with --num-gpus N --dry-run for one number
// after the other. folder: where a few files may lie meanwhile.
Result<int> planned_gpus(const HostSources& sources, const std::vector<std::string>& command,
                         const std::filesystem::path& folder);

}  // namespace muster::service
