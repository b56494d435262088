// What a killed keeper left behind.
#pragma once

#include "system/process.hpp"

namespace muster::queue {

// SIGKILL to every process that carries the keeper's mark (launch/keeper/keeper_mark.hpp), and how many there were. More
// may be forked meanwhile: a caller that needs all of them gone calls again until there are none.
int kill_marked_processes(const ProcessIdentity& keeper);

// The same to every child of this process that is not one of muster's own. A process that starts keepers, and adopts
// what they leave (PR_SET_CHILD_SUBREAPER), has no others: these were left by killed keepers, whatever they have
// done to their environment and their open files.
int kill_orphans();

}  // namespace muster::queue
