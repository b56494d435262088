// What the system said when a file of the lease folder could not be used, with what to do about it.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/error.hpp"

namespace muster::lease {

// action: "create", "open", "lock"; reason: an errno.
Error system_failure(std::string_view action, const std::filesystem::path& path, int reason);

}  // namespace muster::lease
