// The keeper itself: what runs in the process between the launcher and the ranks.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "system/file_descriptor.hpp"
#include "system/process.hpp"
#include "launch/keeper/control_group.hpp"
#include "launch/keeper/ending.hpp"
#include "launch/keeper/keeper.hpp"
#include "launch/keeper/keeper_connection.hpp"
#include "launch/keeper/keeper_protocol.hpp"

namespace muster::launch {

class KeeperProcess {
 public:
  // launcher: a handle on it. To be made in the fork that is to be the keeper, with every signal blocked.
  KeeperProcess(KeeperConnection connection, FileDescriptor launcher, ControlGroups groups);
  // Until the launcher is gone and nothing is left below this process.
  void run();

 private:
  enum class Source : std::uint32_t { orders, launcher, child_signal, beginning, end };

  bool watch(int descriptor, std::uint32_t events, Source source, pid_t worker = 0) const;
  void handle_events();
  void handle(Source source, pid_t worker);
  void take_orders();
  void obey(StartWorker order);
  void obey(const SignalWorkers& order);
  void obey(const EndAll& order);
  void worker_begins(pid_t pid);
  void worker_ends(pid_t pid);
  void lose_launcher();
  void advance_ending();
  void finish_ending();
  bool reap_orphans();
  void tell(const KeeperEvent& event);
  void send();

  KeeperConnection connection_;
  FileDescriptor launcher_;
  FileDescriptor child_signal_;
  FileDescriptor events_;
  ProcessIdentity identity_;
  std::string mark_;
  std::optional<ControlGroup> group_;
  Workers workers_;
  std::optional<Ending> ending_;
  Ending::Clock::time_point next_step_;  // of the ending
  bool launcher_gone_ = false;
  bool waits_to_send_ = false;
};

}  // namespace muster::launch
