// What a keeper that was killed left behind.
#pragma once

#include "base/process.hpp"

namespace muster::queue {

// SIGKILL to every process that carries the keeper's mark (launch/keeper_mark.hpp), and how many those were. Some may
// be born meanwhile: who needs all of them gone asks again until there are none.
int kill_strays(const ProcessIdentity& keeper);

}  // namespace muster::queue
