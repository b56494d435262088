// Locks that are files. The kernel drops one when the last copy of its descriptor is closed, however its holder ended.
#pragma once

#include <filesystem>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster {

// Opens or creates a file and locks it, waiting while another process has it.
Result<FileDescriptor> lock_file(const std::filesystem::path& path);
// The same without waiting. Not open: another process has it, or checks it with lock_state() at this very moment.
Result<FileDescriptor> try_to_lock_file(const std::filesystem::path& path);
// A file that is already open, without waiting. False: another process has it.
Result<bool> try_to_lock(const FileDescriptor& file, const std::filesystem::path& path);

enum class LockState { locked, open, missing, unknown };  // unknown: the file could not be opened or checked
LockState lock_state(const std::filesystem::path& path);
inline bool is_locked_file(const std::filesystem::path& path) { return lock_state(path) == LockState::locked; }

}  // namespace muster
