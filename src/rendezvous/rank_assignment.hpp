// Which ranks each host gets in a round.
#pragma once

#include <vector>

#include "rendezvous/agent_message.hpp"

namespace muster::rendezvous {

// hosts: in the order of their group ranks. Ranks are contiguous in that order, and so are those of each role.
// One Start for each host, in the same order; its round and restart count are left to the caller.
std::vector<Start> assign_ranks(const std::vector<const Join*>& hosts);

}  // namespace muster::rendezvous
