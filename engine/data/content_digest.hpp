// A digest of the contents of files, and a shortcut for files that have not changed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "data/row_files.hpp"

namespace muster::data {

// What the system says about files: their places, sizes and times. The same stamp means the same contents.
Result<std::string> stamp_of(std::span<const RowFile> files);

// Covers kinds and contents, in order; names do not matter. Large files are digested in blocks, by several threads.
// done: called from this thread with the bytes that were read so far.
Result<std::string> digest_of(std::span<const RowFile> files, int threads,
                              const std::function<void(std::uint64_t)>& done);

// The digest that is remembered for this stamp in the folder, else a new one, which is remembered.
Result<std::string> remembered_digest(std::span<const RowFile> files, const std::filesystem::path& folder, int threads,
                                      const std::function<void(std::uint64_t)>& done);

}  // namespace muster::data
