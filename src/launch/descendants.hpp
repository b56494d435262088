// The processes below a process: found through /proc, and reached through handles, so that a number which the kernel has
// given to another process meanwhile is never taken for the one that was meant.
#pragma once

#include <functional>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/process.hpp"

namespace muster::launch {

struct Descendant {
  ProcessStatus status;
  pid_t top = 0;                 // the one directly below the root that it descends from; itself, if it is that
  const FileDescriptor& handle;  // valid while it is visited
};

// Visits the processes that descend from root, parents before their children. Each is visited only when, after its
// handle was opened, it was still the process that had been seen, below the same parent: Note [Verified descendants].
// One whose parent ends meanwhile may be missed: who needs all of them asks again until none is left.
void visit_descendants(pid_t root, const std::function<void(const Descendant&)>& visit);

// The direct children of this process, its threads' included, dead ones that were not waited for too. None of them can
// be mistaken for another: a number is not used again before its parent has waited for it.
std::vector<pid_t> children_of_this_process();

}  // namespace muster::launch
