// The hosts of a run that have joined: their names, where each stands in the round, and which was quiet for longest. It
// decides which may join, and describes which are here and which are missing; what follows from that is up to
// Membership.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/agent_message.hpp"
#include "rendezvous/connection_handler.hpp"
#include "rendezvous/membership.hpp"

namespace muster::rendezvous {

// How far a host is in the current round.
enum class Standing {
  waiting,    // it takes no part
  running,    // it was told to start
  ending,     // it was told to stop, or is ending on its own: it will say Stopped
  succeeded,  // its ranks ended well
  ended,      // nothing of it is left
};

struct Host {
  ConnectionId connection{};
  Join join;
  std::uint64_t arrival = 0;
  Clock::time_point last_heard;
  Standing standing = Standing::waiting;
  std::optional<int> group_rank;  // in the last round it took part in
  bool leaving = false;
};

// Whether processes of the round may be left on it.
inline bool has_ranks(const Host& host) {
  return host.standing == Standing::running || host.standing == Standing::ending;
}

// "node-3 (node rank 2)", "node-3".
std::string name_of(const Join& join);

class Roster {
 public:
  explicit Roster(const MembershipRules& rules) : rules_(rules) {}

  // The host whose place the newcomer takes: the same node rank on the same host, known under an agent that must be
  // gone, since its successor is here. Never the agent that leads, which is part of the coordinator itself.
  Host* replaced_by(const Join& join);
  // Why this one cannot come in; replaced is the host that would go for it, if any.
  std::optional<Refuse> objection(const Join& join, const Host* replaced, Clock::time_point now) const;
  void admit(ConnectionId connection, const Join& join, Clock::time_point now);
  void remove(const Host& host);

  Host* find(ConnectionId connection);
  Host* leader();
  Host* quietest() { return hosts_.empty() ? nullptr : &hosts_.front(); }
  const Host* quietest() const { return hosts_.empty() ? nullptr : &hosts_.front(); }
  void set_heard(const Host& host, Clock::time_point now);
  void set_standing(Host& host, Standing standing);
  void set_leaving(Host& host);

  int size() const { return static_cast<int>(hosts_.size()); }
  int staying() const { return size() - leaving_; }
  int count(Standing standing) const { return counts_[static_cast<std::size_t>(standing)]; }
  void for_each(const std::function<void(Host&)>& visit);
  // In the order of the group ranks of the next round: by node rank; without node ranks the one that leads first, then
  // those of the last round in their order, then newcomers as they came.
  std::vector<Host*> in_order();

  // "2 of 4 hosts are here: node-1, node-2; missing: node ranks 2 and 3".
  std::string describe() const;

 private:
  using Position = std::list<Host>::iterator;
  bool has_node_ranks() const { return !by_node_rank_.empty(); }
  std::optional<Refuse> objection_to_place(const Join& join, const Host* replaced, Clock::time_point now) const;
  std::string missing() const;

  const MembershipRules& rules_;
  std::list<Host> hosts_;  // the one heard longest ago first
  std::unordered_map<ConnectionId, Position> by_connection_;
  std::map<int, Position> by_node_rank_;
  std::optional<ConnectionId> leader_;
  std::array<int, 5> counts_{};  // by standing
  int leaving_ = 0;
  std::uint64_t arrivals_ = 0;
};

}  // namespace muster::rendezvous
