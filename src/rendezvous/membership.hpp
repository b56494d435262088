// Which hosts take part in a run, and when its rounds begin and end: a state machine without sockets, threads or clock.
// It can leave every state: a run that waits for hosts continues when they come.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/agent_message.hpp"
#include "rendezvous/connection_handler.hpp"

namespace muster::rendezvous {

struct MembershipRules {
  std::string run_id;
  int minimum_hosts = 1;
  int maximum_hosts = 1;
  int maximum_restarts = 0;  // rounds started again because a rank failed; hosts that come and go do not count
  bool independent = false;  // a failed rank does not end the round
  std::chrono::milliseconds join_timeout{600000};  // for the minimum to be there; over: the run fails
  std::chrono::milliseconds last_call{30000};      // after the minimum is there, for more to come
  std::chrono::milliseconds alive_interval{1000};
  std::chrono::milliseconds silence{5000};  // after that much silence a host counts as lost
};

// What to say to whom.
struct Order {
  ConnectionId to{};
  CoordinatorMessage message;
};

// Where the run stands, for people and tests.
enum class RunState {
  gathering,  // waiting for hosts
  running,    // a round is on
  stopping,   // its ranks are being ended before the next round, or before the end
  finished,   // all agents have been sent the outcome; one that took part and comes back gets it as well
};

class Membership {
 public:
  virtual ~Membership() = default;
  // Rules that no run can follow (a minimum above the maximum, silence before the next heartbeat is due) are a bug of
  // the caller and throw.
  static std::unique_ptr<Membership> make(MembershipRules rules, Clock::time_point now);

  // Each takes one fact and returns the orders that follow from it. from is the agent's connection; one that was told
  // Refuse is forgotten and to be closed. Finish reaches the agent that leads when all others have had theirs and are
  // gone, since the coordinator ends with it.
  virtual std::vector<Order> heard(ConnectionId from, const AgentMessage& message, Clock::time_point now) = 0;
  virtual std::vector<Order> lost(ConnectionId from, Clock::time_point now) = 0;  // its connection ended
  virtual std::vector<Order> passed(Clock::time_point now) = 0;                   // time went by
  virtual std::optional<Clock::time_point> next_deadline() const = 0;

  virtual RunState state() const = 0;
  virtual int round() const = 0;  // of the last Start; -1 before the first
  // "2 of 4 hosts are here: node-1, node-2; missing: node ranks 2 and 3".
  virtual std::string describe() const = 0;
};

// The secret that agents must know, and what to call when one has proved itself. The functions may be empty; they are
// called on the server's thread with the peer's address.
struct AgentAccess {
  std::string secret = {};                                   // empty: every agent is accepted
  std::function<void(const std::string& peer)> member_came = {};  // it has shown that it knows the secret
  std::function<void(const std::string& peer)> member_left = {};  // and its connection has ended
};

// The handler of agent connections: checks seals, decodes, asks Membership, sends. on_new_round (may be empty) is
// called on the server's thread before the Start messages of a round go out.
std::unique_ptr<ConnectionHandler> make_agent_handler(std::unique_ptr<Membership> membership, AgentAccess access,
                                                      Outbox& outbox, std::function<void()> on_new_round);

}  // namespace muster::rendezvous
