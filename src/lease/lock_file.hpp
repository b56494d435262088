// One file whose kernel lock says that something is held. Locks belong to the open file description: fork and exec hand
// them on, and the kernel drops them when the last copy is closed, however its process ended.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"

namespace muster::lease {

struct FolderView {
  const FileDescriptor& descriptor;
  std::filesystem::path path;  // for messages
};

// Tries for an exclusive lock until patience is over; false: someone else has it.
Result<bool> lock_within(const FileDescriptor& file, std::chrono::milliseconds patience,
                         const std::filesystem::path& path);

// Opens the file, or creates it open to all users, and locks it. Absent: it stayed locked until patience was over.
Result<std::optional<FileDescriptor>> take_lock(const FolderView& folder, const std::string& name,
                                                std::chrono::milliseconds patience);

// For looking only; never creates. Not open: errno tells why.
FileDescriptor open_to_look(const FileDescriptor& folder, const std::string& name);

// Whether someone holds it; file must be a description of our own, from open_to_look. For an instant this takes a
// shared lock, which lookers share; take_lock has the patience for it.
bool is_locked(const FileDescriptor& file);

// Gives a lock up for every copy of the description. Not for a lease: those end with their last copy.
void unlock(const FileDescriptor& file);

}  // namespace muster::lease
