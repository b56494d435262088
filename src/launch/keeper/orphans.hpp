// What falls to the launcher when its keeper is killed: the processes that were below it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <set>

#include "system/process.hpp"

namespace muster::launch {

// Kills and reaps the children of this process that were below the keeper, which is dead, and those they had started,
// until none is left or the deadline has passed. Other children of this process are not touched: only those are meant
// that are in the keeper's control group, in one of the sessions, or carry its mark.
void kill_orphans(const ProcessIdentity& keeper, const std::set<pid_t>& sessions,
                 std::chrono::steady_clock::time_point deadline);

}  // namespace muster::launch
