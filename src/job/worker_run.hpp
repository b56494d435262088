// Runs a muster-worker job: leases GPUs, launches ranks, gives each its assignment, listens to them and serves work.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "gpu/selection.hpp"
#include "host/host.hpp"
#include "spec/values.hpp"
#include "wire/control_server.hpp"

namespace muster::job {

// muster-worker: what MUSTER_WORKER names, else next to this program, else in the build tree that this program is in.
Result<std::filesystem::path> find_worker();
// The same for a program located there.
Result<std::filesystem::path> find_worker_beside(const std::filesystem::path& program);

// A job whose ranks are on several hosts, the same number on each. On each of them muster is started the same way.
struct JobHosts {
  int count = 1;
  int number = 0;                     // of this host
  std::string address = "127.0.0.1";  // of host 0
  std::uint16_t port = 29500;
};

// Where the ranks of one host meet: distributed.master_addr and master_port.
struct JobStore {
  std::optional<std::string> address;  // of this host; absent: the loopback interface
  std::optional<std::int64_t> port;    // absent: a free one
};

struct WorkerJob {
  std::string name;  // for people: "generate"
  // threads, device and backend follow from the rest and are set internally.
  wire::Assignment assignment;
  int ranks = 1;                  // on this host
  std::optional<JobHosts> hosts;  // absent: only this one
  JobStore store;                 // where this is the only host
  // The GPUs of the ranks, one for each; absent: CPU ranks. If there are fewer GPUs than ranks, they are shared.
  std::optional<gpu::SelectionRequest> selection;
  spec::Backend backend = spec::Backend::automatic;  // NCCL where every rank has a GPU of its own, else Gloo
  host::LeaseRequest lease;
  std::optional<int> threads;                 // per rank; absent: OMP_NUM_THREADS, else the cores divided by the ranks
  std::optional<std::filesystem::path> logs;  // folder for what ranks print; absent: shown only for those that fail
  std::chrono::milliseconds grace{10000};     // between SIGTERM and SIGKILL
  // The same for the others when one rank has failed by itself; absent: the same grace.
  std::optional<std::chrono::milliseconds> grace_after_failure = {};
  // Open files that ranks, and their keepers, hold open as long as they live: locks.
  std::vector<int> inherited = {};
  // For ranks that work separately: one that dies does not end the others, and the listener takes care of its work. A
  // rank that reports wrong input, or refuses, still ends the job: the others would report the same.
  bool survives_losses = false;
};

// Whether the ranks can use the requested backend. To be called before anything is written.
Result<void> check_backend(const WorkerJob& job);

// Listens to a job. Called on the channel's thread, one call at a time.
using WorkerListener = wire::ControlListener;

// To be called while this process has one thread: it forks. Signals end the job; its exit code is then 128 + signal.
// Otherwise 0, or the Error of the rank that failed first, with the last lines it wrote. A job that survives losses
// ends with 0 when one rank did everything. note: a line for the user.
Result<int> run_workers(host::Host& host, const WorkerJob& job, WorkerListener& listener,
                        const std::function<void(const std::string&)>& note);

}  // namespace muster::job
