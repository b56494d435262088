// This machine's GPUs as one process may use them: inventory, inherited mask and leases combined. The command line
// and the Python module call this and nothing below it.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "gpu/inventory.hpp"
#include "gpu/mask.hpp"
#include "gpu/selection.hpp"
#include "lease/lease.hpp"

namespace muster::host {

// Where a Host looks for GPUs.
struct HostSources {
  std::optional<std::filesystem::path> inventory_file;  // instead of the driver
  std::optional<std::filesystem::path> nvml_library;    // instead of the one that is found
  std::optional<std::string> mask;                      // CUDA_VISIBLE_DEVICES; absent: not set
  std::filesystem::path lease_folder;
};

// MUSTER_GPUS, MUSTER_NVML_LIBRARY, CUDA_VISIBLE_DEVICES and MUSTER_LEASE_DIR of this process.
HostSources sources_from_environment();

// One look at everything.
struct HostView {
  gpu::Snapshot snapshot;
  std::optional<std::string> mask;               // as inherited
  std::vector<gpu::VisibleDevice> visible;       // position: VisibleIndex
  std::map<std::string, lease::Holder> holders;  // leased UUIDs
  // What computes on which GPU, in words: Note [Who makes a GPU busy]. Without the GPUs of the lease that this process
  // runs in. Where the GPU is leased these may be the holder's own processes.
  std::map<std::string, std::string> occupants = {};

  const gpu::Gpu& gpu_of(const gpu::VisibleDevice& device) const;
  // The position of a GPU in the mask, if the mask shows it.
  std::optional<gpu::VisibleIndex> visible_index(gpu::GpuIndex gpu) const;
};

// GPUs chosen from a view, and the mask of a child that may use them all: of one look, so that they agree.
struct Choice {
  HostView view;
  std::vector<gpu::VisibleIndex> devices;
  std::string mask;  // CUDA_VISIBLE_DEVICES

  std::vector<gpu::VisibleDevice> visible_devices() const;
};

// How a lease is asked for.
struct LeaseRequest {
  std::string command;                                      // recorded so that others can read it
  bool share = false;                                       // use the GPUs even if others have them, and lease nothing
  std::optional<std::chrono::milliseconds> wait;            // absent: now or not at all
  std::chrono::milliseconds reclaim{30000};                 // longest wait for the last holder's memory; 0: none
  std::function<void(const std::string&)> on_waiting = {};  // called once with what is being waited for
  std::stop_token stop = {};                                // when requested, every wait ends in a refusal
};

// GPUs that this process may use.
struct Grant {
  std::optional<lease::Lease> lease;        // absent when shared
  std::vector<gpu::VisibleDevice> devices;  // in the order of use
  std::string mask;                         // CUDA_VISIBLE_DEVICES for a child that may use them all
  std::vector<std::pair<std::string, std::string>> environment;  // everything a child needs
  std::vector<std::string> notes;  // what the user should know: which processes use these GPUs without a lease
  HostView view;                   // that they were chosen from, without its holders
};

class Host {
 public:
  explicit Host(HostSources sources);

  const HostSources& sources() const { return sources_; }
  const lease::LeaseTable& leases() const { return leases_; }

  Result<HostView> look(gpu::Detail detail = gpu::Detail::everything);

  // Chooses and takes, in one step.
  Result<Grant> hold(const gpu::SelectionRequest& request, const LeaseRequest& lease_request, gpu::MaskForm form);

  // Takes visible GPUs as they are, healthy or not: count of them from first on, or as many as there are.
  Result<Grant> hold_visible(std::size_t first, std::size_t count, const LeaseRequest& lease_request);

 private:
  // Without the holders: nothing in it waits for the leases.
  Result<HostView> look_at_gpus(gpu::Detail detail);
  Result<lease::Lease> take(const gpu::SelectionRequest& request, const LeaseRequest& lease_request, Choice& choice);
  Result<void> wait_for_memory(lease::Lease& held, const LeaseRequest& lease_request);

  HostSources sources_;
  std::unique_ptr<gpu::Inventory> inventory_;
  lease::LeaseTable leases_;
};

// Chooses from a view of everything.
Result<std::vector<gpu::VisibleIndex>> pick(const HostView& view, const gpu::SelectionRequest& request);

// The same with their mask; nothing is taken.
Result<Choice> choose(HostView view, const gpu::SelectionRequest& request,
                      gpu::MaskForm form = gpu::MaskForm::as_inherited);

// The mask for these devices of a view. Numbers are only used where they cannot be misread.
Result<std::string> mask_for(const HostView& view, std::span<const gpu::VisibleIndex> chosen, gpu::MaskForm form);

}  // namespace muster::host
