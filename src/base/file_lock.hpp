// Locks that are files. The kernel drops one when the last copy of its descriptor is closed, however its holder ended.
#pragma once

#include <filesystem>

#include "base/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster {

// Opens or makes a file and locks it, waiting for who has it.
Result<FileDescriptor> lock_file(const std::filesystem::path& path);
// The same without waiting. Not open: somebody has it, or looks at it with lock_state() at this very moment.
Result<FileDescriptor> try_to_lock_file(const std::filesystem::path& path);
// A file that is open already, without waiting. False: somebody has it.
Result<bool> try_to_lock(const FileDescriptor& file, const std::filesystem::path& path);

enum class LockState { locked, open, missing, unknown };  // unknown: the file could not be opened or asked
LockState lock_state(const std::filesystem::path& path);
inline bool is_locked_file(const std::filesystem::path& path) { return lock_state(path) == LockState::locked; }

}  // namespace muster
