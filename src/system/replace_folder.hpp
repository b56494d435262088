// Replaces a folder with a finished one.
#pragma once

#include <filesystem>

#include "base/result.hpp"

namespace muster {

// Renames the folder finished to place; what had that name before is removed. Readers see the old folder or the new
// one, whole. (On file systems that cannot exchange names there is a moment without either; never a part of one.) Both
// must be in the same folder. The names are on the disk when it returns; what is in finished must be already.
Result<void> replace_folder(const std::filesystem::path& finished, const std::filesystem::path& place);

// Removes a folder: it loses its name at once, then its contents. Killed in between, it leaves a folder with a hidden
// name, ".NAME.removed".
Result<void> remove_folder(const std::filesystem::path& place);

// The names of a folder's entries are on the disk when it returns.
Result<void> flush_folder(const std::filesystem::path& folder);

}  // namespace muster
