// Processes of muster that serve others too, and outlive whom they were started by: the queue's conductor and the
// keepers of its jobs. A launch or a job from within which one was started neither ends it nor waits for it.
#pragma once

#include <sys/types.h>

namespace muster::launch {

// The names by which they are known.
inline constexpr const char* detached_queue = "muster-queue";
inline constexpr const char* detached_job = "muster-job";

// This process, and what it forks without exec, is such a one from now on: it has this name, one of the two, carries no
// keeper's mark, and has left the control group of the launch it was in, where the kernel allows that.
void detach_process(const char* name);

// Whether that process is such a one, and of this very program.
bool is_detached(pid_t pid);

}  // namespace muster::launch
