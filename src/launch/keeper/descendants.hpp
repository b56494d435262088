// The processes below a process: found through /proc, and reached through handles, so that a number which the kernel
// has given to another process meanwhile is never taken for the one that was meant.
#pragma once

#include <optional>
#include <vector>

#include "system/file_descriptor.hpp"
#include "system/process.hpp"

namespace muster::launch {

struct Descendant {
  ProcessStatus status;
  pid_t top = 0;  // the one directly below the root that it descends from; itself, if it is that
  FileDescriptor handle;
};

// The processes that descend from root, parents before their children. Each was, after its handle had been opened,
// still the process that had been seen, below the same parent: Note [Verified descendants]. One that is born or loses
// its parent meanwhile may be missed, and so are those for which no descriptor is free: a caller that needs all of them
// asks again until none is left.
std::vector<Descendant> find_descendants(pid_t root);

// The direct children of this process, its threads' included, dead ones that were not waited for too. None of them can
// be mistaken for another: a number is not used again before its parent has waited for it.
std::vector<pid_t> children_of_this_process();

// SIGKILL to a child that was not waited for, and to its process group unless it is of our session. What it was is
// returned. Its group gets the signal in one stroke: nobody in it escapes by forking.
std::optional<ProcessStatus> kill_child_with_group(pid_t child);

}  // namespace muster::launch
