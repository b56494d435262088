// muster launch: GPUs and ranks brought together. Counts, leases, masks and binds, then lets src/launch run it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "gpu/numa_binding.hpp"
#include "gpu/selection.hpp"
#include "host/host.hpp"
#include "launch/failure.hpp"
#include "launch/launch_request.hpp"

namespace muster::job {

// How many ranks this host gets.
enum class RanksPer { gpu, cpu, automatic };  // one per GPU; one per core; GPUs if there are any, else cores
using RanksRequest = std::variant<int, RanksPer>;

struct LaunchJobRequest {
  launch::LaunchRequest request;                   // except local_ranks, which follows from ranks
  std::optional<RanksRequest> ranks;                  // absent: one for each GPU that is picked, else one
  std::optional<gpu::SelectionRequest> selection;  // GPUs to pick; absent: the visible ones, as they are
  bool without_gpus = false;                       // hide them all
  host::LeaseRequest lease;
  gpu::MaskForm form = gpu::MaskForm::as_inherited;
  std::optional<gpu::NumaBinding> numa;
  std::vector<std::pair<std::string, std::string>> environment = {};  // more variables for every rank
  std::optional<int> threads = {};  // of each rank; absent: OMP_NUM_THREADS, else the cores over the ranks
  std::vector<int> inherited = {};  // descriptors that ranks get in addition to the standard streams and the leases
};

// What one local rank gets.
struct RankDevice {
  gpu::VisibleIndex visible{};  // in the mask this process inherited
  gpu::GpuIndex index{};
  std::string uuid;
};

// Everything that is known before anything starts.
struct LaunchPlan {
  launch::LaunchRequest request;
  launch::RankResources resources;
  std::vector<std::optional<RankDevice>> devices;  // by local rank; absent: no GPU of its own
  bool picked = false;                             // GPUs were chosen and masked; else they are used as they are
  std::vector<std::string> notes;
};

// Chooses without taking anything: what --dry-run shows.
Result<LaunchPlan> plan_launch(host::Host& host, const LaunchJobRequest& job);

// Callbacks during a launch.
struct LaunchListener {
  std::function<void(const std::string&)> note;                   // a line for the user
  std::function<void()> started = {};                             // threads may be started from here on
  std::function<void(const launch::FailureReport&)> failed = {};  // absent: torchrun's block on standard error
  std::function<void(int signal)> interrupted = {};               // a signal came; the ranks are asked to end after it
};

// Binds the port, takes the GPUs, runs. Returns the exit code. To be called while this process has one thread.
Result<int> run_launch(host::Host& host, const LaunchJobRequest& job, const LaunchListener& listener);

}  // namespace muster::job
