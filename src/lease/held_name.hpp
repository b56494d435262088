// A name that the kernel keeps for as long as a lease: a second proof beside the lock file, which can be deleted.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "system/file_descriptor.hpp"

namespace muster::lease {

// Note [A lock file that is deleted]
// Whoever owns the lease folder, root, and programs that clean up old files can delete a lock file while it is held. The
// next process would then create a new file, lock that, and have the GPU twice. So a holder also binds a socket to a
// name in the kernel's abstract namespace. There is no file to delete; copies of the descriptor are inherited as the
// lock is, and the kernel frees the name when the last copy is closed. Network namespaces have names of their own:
// between those the lock file alone counts.
std::string name_in_kernel(const std::filesystem::path& folder, const std::string& lock_file);

struct HeldName {
  FileDescriptor socket;
  bool is_taken = false;  // by somebody else
};

// Tries until patience is over. Neither a socket nor taken: this system has no such names.
HeldName take_name(const std::string& name, std::chrono::milliseconds patience);

// Never changes anything.
bool is_name_taken(const std::string& name);

}  // namespace muster::lease
