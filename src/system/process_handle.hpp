// A handle on one process. Unlike its number, which the kernel may give to another one later, a handle never refers to
// another.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "system/file_descriptor.hpp"

namespace muster {

// Readable once the process has ended; close-on-exec. Empty, with the reason in errno, if no such process exists.
FileDescriptor open_process(pid_t pid);

// False if it is gone, or belongs to another user.
bool signal_process(const FileDescriptor& process, int signal);

// Waits until it has ended (a zombie has) or the deadline has passed; true when it has ended.
bool wait_for_end(const FileDescriptor& process, std::chrono::steady_clock::time_point deadline);

}  // namespace muster
