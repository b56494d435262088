// The entry in the environment of everything below a keeper that says whose it is: MUSTER_KEEPER, the keepers above it
// from the outermost to its own. A process carries it wherever it flees.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "system/process.hpp"

namespace muster::launch {

// The entry for what is below the keeper, this process: "MUSTER_KEEPER=…". It begins with the marks of this process
// itself: a keeper may run below another one's rank.
std::string mark_of(const ProcessIdentity& keeper);

// environment: entries "NAME=value".
void set_mark(std::vector<std::string>& environment, const std::string& mark);

// False too when its environment cannot be read, or it is dead.
bool carries_mark(pid_t pid, const ProcessIdentity& keeper);

}  // namespace muster::launch
