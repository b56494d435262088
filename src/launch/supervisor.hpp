// How one host's ranks are led through their rounds: a state machine without processes, sockets or clock. Facts come in
// (from the keeper, the coordinator, the kernel's signals, the clock), orders go out; src/launch/launcher.cpp carries
// them out.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launch/keeper/keeper.hpp"
#include "launch/launch_request.hpp"
#include "rendezvous/agent_message.hpp"

namespace muster::launch {

using SteadyTime = std::chrono::steady_clock::time_point;

// ---- orders ----

// See that the GPUs have their memory back, then say gpus_ready().
struct AwaitGpus {};
struct StartRanks {
  rendezvous::Start round;
};
struct SignalRanks {
  int signal = 0;
};
// End what is left below the keeper.
struct EndTheRest {
  std::chrono::milliseconds grace{0};
};
struct Tell {
  rendezvous::AgentMessage message;
};
// Tell the coordinator of a failure, with what can be found out about it.
struct TellFailure {
  int round = 0;
  std::size_t exit = 0;  // position in Supervisor::exits()
};
struct Note {
  std::string text;
};
// The coordinator is gone or has no place for us, but the run may continue: look for it again after a while.
struct Reconnect {};

enum class Verdict {
  succeeded,
  failed,       // a rank failed, here or elsewhere
  interrupted,  // a signal ended it
  broken,       // hosts did not come together, or lost each other
};
struct Leave {
  Verdict verdict = Verdict::failed;
  std::string reason;                  // for people; empty when the report of the failure says it all
  int signal = 0;                      // interrupted
  std::optional<std::string> failure;  // JSON text of the run's first failure, where another host told it
};
using Action = std::variant<AwaitGpus, StartRanks, SignalRanks, EndTheRest, Tell, TellFailure, Note, Reconnect, Leave>;

// ---- what is known about the ranks of the current round ----

struct RankExit {
  int local_rank = 0;
  pid_t pid = 0;
  ProcessEnd end;
  std::optional<std::string> not_started;
  std::chrono::system_clock::time_point time;
  SteadyTime seen;
  bool asked = false;  // it was told to end while it still lived: its end is a consequence
  bool failed() const { return not_started || end.signal || end.exit_code.value_or(1) != 0; }
};

struct SupervisionRules {
  int local_ranks = 1;
  bool independent = false;
  bool leads = true;  // the coordinator is in this process
  bool several_hosts = false;
  bool may_reconnect = false;  // a lost coordinator may come back
  std::chrono::milliseconds grace{30000};
  std::optional<std::chrono::milliseconds> grace_after_failure = {};  // absent: the same
  std::chrono::milliseconds leftover_grace{1000};                     // for what ranks that ended well left behind
  std::optional<std::chrono::system_clock::time_point> job_end;
};

class Supervisor {
 public:
  explicit Supervisor(SupervisionRules rules) : rules_(rules) {}

  std::vector<Action> heard(const rendezvous::CoordinatorMessage& message, SteadyTime now);
  std::vector<Action> on_event(const KeeperEvent& event, SteadyTime now);
  // An ending signal. The second one ends the grace.
  std::vector<Action> signalled(int signal, std::chrono::system_clock::time_point wall, SteadyTime now);
  std::vector<Action> link_broken(const std::string& reason, SteadyTime now);
  std::vector<Action> gpus_ready(SteadyTime now);
  std::vector<Action> passed(SteadyTime now);
  std::optional<SteadyTime> next_deadline() const { return deadline_; }

  // In the order in which the kernel saw them end.
  const std::vector<RankExit>& exits() const { return exits_; }
  const std::optional<rendezvous::Start>& round() const { return round_; }
  bool waits_for_hosts() const { return state_ == State::waiting; }

 private:
  enum class State {
    waiting,    // no rank runs; the coordinator speaks next
    preparing,  // a round is to begin once the GPUs are free
    running,
    ending,    // the ranks were asked to end
    clearing,  // what is left is being killed
    over,
  };
  // What follows when nothing is left of a round.
  enum class After { tell_success, tell_failure, tell_stopped, leave, look_again };

  std::vector<Action> begin(const rendezvous::Start& round);
  std::vector<Action> stop(After after, int signal, std::chrono::milliseconds grace, SteadyTime now);
  std::vector<Action> clear(std::chrono::milliseconds grace);
  std::vector<Action> cleared(int killed, SteadyTime now);
  std::vector<Action> ended(const RankExit& exit, SteadyTime now);
  std::vector<Action> leave();
  std::vector<Action> finish(const rendezvous::Finish& message, SteadyTime now);
  std::vector<Action> refused(const rendezvous::Refuse& refusal, SteadyTime now);
  bool has_ranks() const { return state_ == State::running || state_ == State::ending || state_ == State::clearing; }
  std::optional<std::size_t> first_failure() const;

  SupervisionRules rules_;
  State state_ = State::waiting;
  After after_ = After::tell_stopped;
  std::optional<rendezvous::Start> round_;
  std::vector<RankExit> exits_;
  std::optional<SteadyTime> deadline_;
  std::optional<Leave> leave_;  // how the launcher ends once nothing is left
  std::string last_refusal_;    // told once
};

}  // namespace muster::launch
