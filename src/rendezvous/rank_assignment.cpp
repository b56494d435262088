#include "rendezvous/rank_assignment.hpp"

#include <string_view>
#include <unordered_map>

namespace muster::rendezvous {

std::vector<Start> assign_ranks(const std::vector<const Join*>& hosts) {
  std::vector<Start> starts;
  starts.reserve(hosts.size());
  int world_size = 0;
  std::unordered_map<std::string_view, int> role_sizes;
  for (const Join* host : hosts) {
    Start start;
    start.group_rank = static_cast<int>(starts.size());
    start.group_world_size = static_cast<int>(hosts.size());
    start.first_rank = world_size;
    start.first_role_rank = role_sizes[host->role];
    world_size += host->local_world_size;
    role_sizes[host->role] += host->local_world_size;
    starts.push_back(start);
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    starts[i].world_size = world_size;
    starts[i].role_world_size = role_sizes[hosts[i]->role];
  }
  return starts;
}

}  // namespace muster::rendezvous
