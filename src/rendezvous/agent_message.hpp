// What agents (one per host) and the coordinator of a run say to each other: JSON, one message a line, versioned.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"

namespace muster::rendezvous {

// The first byte of an agent: its messages are JSON objects.
inline constexpr char agent_first_byte = '{';
inline constexpr int agent_protocol = 2;
// A longer line is junk.
inline constexpr std::size_t longest_message = std::size_t{1} << 20;

// ---- from an agent ----

// The first message after the handshake. One agent is one group of local ranks.
struct Join {
  int protocol = agent_protocol;
  std::string run_id;
  std::string host;              // for people
  std::int64_t pid = 0;          // of the agent
  std::string role = "default";  // of its ranks
  int local_world_size = 1;
  std::optional<int> node_rank;  // static: the place it must get
  bool leads = false;            // the coordinator's own agent: it gets the first place of those without a node rank
};
struct Alive {};  // heartbeat
// All local ranks ended well.
struct Succeeded {
  int round = 0;
};
// A local rank failed. In a collective run the agent is ending its other ranks already, and says Stopped when they are
// gone; in an independent run it says this in place of Succeeded, when all its ranks have ended.
struct Failed {
  int round = 0;
  std::chrono::milliseconds age{0};  // since it happened, by the agent's own clock: hosts' clocks need not agree
  // JSON text of the first failure there, passed on as it is; reasons name its "rank" where it has one.
  std::string failure;
};
// No local process is left.
struct Stopped {
  int round = 0;
};
// The agent was asked to end (a signal); its ranks are being stopped, and Stopped follows.
struct Leaving {
  std::string reason;
};
using AgentMessage = std::variant<Join, Alive, Succeeded, Failed, Stopped, Leaving>;

// ---- to an agent ----

struct Welcome {
  std::chrono::milliseconds alive_interval{1000};  // how often to send Alive
  std::chrono::milliseconds silence{5000};         // after that much silence the coordinator counts as gone
};
// Begin a round.
struct Start {
  int round = 0;
  int restart_count = 0;
  int group_rank = 0;
  int group_world_size = 1;
  int first_rank = 0;
  int world_size = 1;
  int first_role_rank = 0;
  int role_world_size = 1;
};
// End the ranks of this round; say Stopped when they are gone. Another Start or a Finish follows.
struct Stop {
  int round = 0;
  std::string reason;  // for people: "rank 3 on node-2 failed", "node-4 joined"
};
struct Finish {
  bool success = false;
  std::string reason;                  // for people
  std::optional<std::string> failure;  // JSON text of the run's first failure, as its agent sent it
};
// Not part of this run, or not any more; the reason is for the user. The connection is closed.
struct Refuse {
  std::string reason;
  bool retry = false;  // the same Join may be taken later: places become free
};
using CoordinatorMessage = std::variant<Welcome, Alive, Start, Stop, Finish, Refuse>;

// One line, newline included, never longer than the longest message: a failure that does not fit is left out.
std::string encode(const AgentMessage& message);
std::string encode(const CoordinatorMessage& message);
// A line without its newline. Unknown fields are skipped; anything else that is unexpected is an error. Names and
// reasons come out without control characters. Only the protocol is read from a Join of another protocol.
Result<AgentMessage> decode_agent_message(std::string_view line);
Result<CoordinatorMessage> decode_coordinator_message(std::string_view line);

}  // namespace muster::rendezvous
