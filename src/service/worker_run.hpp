// Runs a job of muster-worker's: GPUs leased, ranks launched, each given its assignment, heard and served with work.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "gpu/selection.hpp"
#include "service/host.hpp"
#include "spec/values.hpp"
#include "wire/control_server.hpp"

namespace muster::service {

// muster-worker: what MUSTER_WORKER names, else beside this program, else in the build tree that this program is in.
Result<std::filesystem::path> find_worker();
// The same for a program that stands there.
Result<std::filesystem::path> find_worker_beside(const std::filesystem::path& program);

// A job whose ranks are on several hosts, as many on each. On each of them muster is started the same way.
struct JobHosts {
  int count = 1;
  int number = 0;                     // of this host
  std::string address = "127.0.0.1";  // of host 0
  std::uint16_t port = 29500;
};

struct WorkerJob {
  std::string name;  // for people: "generate"
  // threads, device and backend follow from the rest and are set here.
  wire::Assignment assignment;
  int ranks = 1;                  // on this host
  std::optional<JobHosts> hosts;  // absent: this one alone
  // The GPUs of the ranks, one for each; absent: CPU ranks. Fewer GPUs than ranks are shared among them.
  std::optional<gpu::SelectionRequest> selection;
  spec::Backend backend = spec::Backend::automatic;  // NCCL where every rank has a GPU of its own, else Gloo
  LeaseWish lease;
  std::optional<int> threads;                 // of each rank; absent: OMP_NUM_THREADS, else the cores over the ranks
  std::optional<std::filesystem::path> logs;  // folder for what ranks print; absent: shown only where they fail
  std::chrono::milliseconds grace{10000};     // between SIGTERM and SIGKILL
  // The same for the others when one rank has failed by itself; absent: the same grace.
  std::optional<std::chrono::milliseconds> grace_after_failure = {};
  // Open files that ranks, and whoever keeps them, hold open as long as they live: locks.
  std::vector<int> inherited = {};
  // For ranks that work each for itself: one that dies does not end the others, and the listener sees to its work. A
  // rank that says that the input is wrong, or refuses, still ends the job: the others would say the same.
  bool survives_losses = false;
};

// Whether the ranks can have the backend that is asked for. To be asked before anything is written.
Result<void> check_backend(const WorkerJob& job);

// Hears of a job. Called on the channel's thread, one call at a time.
using WorkerListener = wire::ControlListener;

// To be called while this process has one thread: it forks. Signals end the job; its exit code is then 128 + signal.
// Otherwise 0, or the Error of the rank that failed first, with the last lines it wrote. A job that survives losses
// ends with 0 when one rank did everything. note: a line for the user.
Result<int> run_workers(Host& host, const WorkerJob& job, WorkerListener& listener,
                        const std::function<void(const std::string&)>& note);

}  // namespace muster::service
