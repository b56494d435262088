// Runs by the names people call them.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "store/run_folder.hpp"

namespace muster::store {

// Every folder in output but hidden ones, by name; whether each is a run is another question. None where there is no
// such folder.
std::vector<RunFolder> folders_in(const std::filesystem::path& output);

// which: "latest" (the newest run), a name, a beginning of one name only, or a path. Unknown ones are refused with the
// nearest name.
Result<RunFolder> find_run(const std::filesystem::path& output, std::string_view which);

}  // namespace muster::store
