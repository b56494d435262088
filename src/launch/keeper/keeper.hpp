// A small process between the launcher and the ranks. Every process the ranks ever start stays below it, so that none
// is left behind: not when the launcher ends, and not when it is killed.
//
//   launcher ── keeper ── rank 0 ── its children
//                      └─ rank 1 ── …
//
// The keeper is a sub-reaper: what loses its parent becomes its child. When the launcher is gone it kills all that is
// below it, then ends. Should the keeper itself be killed, the ranks get SIGKILL from the kernel, and what they started
// falls to the launcher, which is a sub-reaper too and kills it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "system/subprocess.hpp"

namespace muster::launch {

// One process to start. Its position in the list is its local rank.
struct WorkerCommand {
  std::vector<std::string> command;                              // program first, found through PATH
  std::vector<std::pair<std::string, std::string>> environment;  // complete, but for MUSTER_KEEPER: keeper_mark.hpp
  int output = 1;                                                // descriptors of this process that become its 1 and 2
  int errors = 2;
  std::vector<int> cpus;  // may run on these only; empty: as the launcher
};

// ---- what the keeper tells, in the order in which it happened ----

struct WorkerStarted {
  int local_rank = 0;
  pid_t pid = 0;
};
// exec failed: no such program, no permission.
struct WorkerNotStarted {
  int local_rank = 0;
  std::string reason;
};
struct WorkerExited {
  int local_rank = 0;
  pid_t pid = 0;
  ProcessEnd end;
  std::chrono::system_clock::time_point time;  // when the kernel told of it
  bool signalled = false;                      // the launcher's signal, or its end_all(), met it while it still lived
};
// Nothing is left below the keeper. killed: processes that the ranks had left behind and that had to be ended.
struct AllGone {
  int killed = 0;
};
// The keeper itself is gone, killed by someone. What was below it has been killed.
struct KeeperLost {};
using KeeperEvent = std::variant<WorkerStarted, WorkerNotStarted, WorkerExited, AllGone, KeeperLost>;

// Whether the ranks get a control group of their own: control_group.hpp.
enum class ControlGroups { where_allowed, never };

// A process has one at a time.
class Keeper {
 public:
  // Forks. To be called before this process has threads. The descriptors this process has open without close-on-exec (a
  // lease) are kept open by the keeper and by the ranks.
  static Result<Keeper> start(ControlGroups groups = ControlGroups::where_allowed);
  Keeper(Keeper&& other) noexcept;
  Keeper& operator=(Keeper&& other) noexcept;
  // Kills everything below it, and waits for that; after some seconds it leaves what hangs in the kernel to the keeper.
  ~Keeper();

  pid_t pid() const;
  int descriptor() const;  // readable: receive() has something

  // One after the other, each in a session of its own, with default signals and nothing inherited but what is stated.
  // WorkerStarted or WorkerNotStarted follows for each. An Error when not all orders reached the keeper.
  Result<void> start_workers(const std::vector<WorkerCommand>& workers);
  // To the process group of each rank that still runs. SIGCONT follows where the signal asks for an end, so that a
  // stopped process can obey.
  void signal_workers(int signal);
  void signal_worker(int local_rank, int signal);
  // Ends what is left below the keeper, ranks and what they started: SIGTERM, then SIGKILL after the grace (at once
  // when it is zero), until nothing is left. AllGone follows. Asked for again meanwhile, the shorter grace counts.
  void end_all(std::chrono::milliseconds grace);

  // Never blocks, but to kill what a lost keeper left. Exits are reported in the order in which the kernel saw them:
  // Note [Order of exits] in keeper_process.cpp. Nothing follows KeeperLost.
  std::vector<KeeperEvent> receive();

 private:
  struct State;
  explicit Keeper(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muster::launch
