// What is to be launched: plain values, complete, checked at the edge. Everything here is decided before a process
// exists.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "system/socket.hpp"
#include "launch/log_folder.hpp"
#include "launch/run_secret.hpp"

namespace muster::launch {

// How many hosts take part.
struct HostRange {
  int minimum = 1;
  int maximum = 1;
  bool operator==(const HostRange&) const = default;
};

// How the agents of the hosts find each other.
struct RendezvousPoint {
  enum class Kind {
    alone,        // one host: a free port of the loopback interface, unless one is named
    by_rank,      // each host knows its place; the first one serves at the endpoint
    by_endpoint,  // places are given as hosts come; the host that has the endpoint's address serves
  };
  Kind kind = Kind::alone;
  Endpoint endpoint{"127.0.0.1", std::nullopt};
  std::optional<int> node_rank;  // by_rank
  std::optional<bool> serves;    // by_endpoint: this host serves, or does not, whatever its addresses are
};

// Which GPUs a rank sees, and which of them is its own.
enum class Contract {
  collective,          // the whole list; its own is the one at LOCAL_RANK
  isolated,            // its own only, at 0; LOCAL_RANK stays its place among the ranks of the host
  own_gpu_first,       // its own at 0, then the others; LOCAL_RANK is 0
  virtual_local_rank,  // its own only, at 0; LOCAL_RANK is 0 (torchrun's --virtual-local-rank)
};
std::string_view to_word(Contract contract);
// One sentence for people.
std::string_view describe(Contract contract);

// One of several launchers that a cluster engine started on one host, each with its own ranks: where those stand.
struct HostPlace {
  int first_local_rank = 0;
  int local_world_size = 1;
  int host_index = 0;
  int host_count = 1;
};

struct RendezvousTimes {
  std::chrono::milliseconds join{600000};      // until the minimum of hosts is there
  std::chrono::milliseconds last_call{30000};  // after that, for more to come
  std::chrono::milliseconds alive_interval{1000};
  std::chrono::milliseconds silence{5000};  // after which a host counts as lost
};

// What a signal to the launcher leads to.
struct SignalRules {
  std::set<int> ending;  // forwarded, then the ranks have the grace, then the launcher ends
  std::string ending_as_written;
  std::set<int> passing;  // forwarded, and that is all
  std::chrono::milliseconds grace{30000};
  // What the other ranks have when one has failed by itself; absent: the same grace.
  std::optional<std::chrono::milliseconds> grace_after_failure = {};
  std::optional<std::chrono::system_clock::time_point> job_end;  // when the cluster engine will kill everything
};

struct LaunchRequest {
  std::vector<std::string> command;  // of every rank, program first
  std::string entry;                 // how reports name it: "train.py"
  std::string run_id;
  std::string role = "default";
  HostRange hosts;
  RendezvousPoint rendezvous_point;
  RendezvousTimes times;
  SecretSource secret;
  int local_ranks = 1;
  std::optional<HostPlace> place;
  int maximum_restarts = 0;
  bool independent = false;    // a failed rank does not end the others
  bool own_exit_code = false;  // end with the first failing rank's own code in place of 1
  Contract contract = Contract::collective;
  SignalRules signals;
  LogOptions logs;
};

// Facts about this host that shape what ranks get.
struct RankResources {
  std::vector<std::optional<std::string>> masks;                 // by local rank; absent: as inherited
  std::vector<std::pair<std::string, std::string>> environment;  // of every rank, beside the worker contract
  std::vector<std::vector<int>> cpus;                            // by local rank; empty: as the launcher
  std::optional<int> threads;                                    // OMP_NUM_THREADS; absent: as inherited
};

}  // namespace muster::launch
