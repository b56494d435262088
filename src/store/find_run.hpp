// Runs by the names that users type.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "store/run_folder.hpp"

namespace muster::store {

// Every folder in output except hidden ones, by name, whether it is a run or not. None if output does not exist.
std::vector<RunFolder> folders_in(const std::filesystem::path& output);

// which: "latest" (the newest run), a name, a unique prefix of one, or a path. Unknown ones are refused with the
// nearest name.
Result<RunFolder> find_run(const std::filesystem::path& output, std::string_view which);

}  // namespace muster::store
