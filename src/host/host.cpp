#include "host/host.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "gpu/health.hpp"
#include "gpu/occupant.hpp"
#include "host/reclaim.hpp"
#include "lease/printable_text.hpp"
#include "system/environment.hpp"
#include "system/process.hpp"

namespace muster::host {
namespace {

std::unique_ptr<gpu::Inventory> open_inventory(const HostSources& sources) {
  if (sources.inventory_file) return gpu::open_file_inventory(*sources.inventory_file);
  return gpu::open_nvml_inventory(sources.nvml_library);
}

using HolderOf = std::function<std::optional<std::string>(const std::string& uuid)>;

std::vector<gpu::Candidate> candidates_of(const HostView& view, const HolderOf& holder_of) {
  std::vector<gpu::Candidate> candidates;
  for (const gpu::VisibleDevice& device : view.visible) {
    const gpu::Gpu& gpu = view.gpu_of(device);
    gpu::Candidate candidate;
    candidate.gpu = device.gpu;
    if (!gpu.lost) candidate.uuid = device.uuid;
    if (device.mig) {
      candidate.total = gpu.facts.mig_instances[*device.mig].memory_total;
    } else {
      candidate.total = gpu.facts.memory_total;
      candidate.used = gpu.reading.memory_used;
      candidate.free = gpu.reading.memory_free;
      candidate.utilization = gpu.reading.utilization;
    }
    candidate.sickness = gpu::sickness(gpu);
    if (device.uuid) {
      candidate.holder = holder_of(device.uuid->text);
      const auto occupant = view.occupants.find(device.uuid->text);
      if (!candidate.holder && occupant != view.occupants.end()) candidate.occupant = occupant->second;
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

gpu::Topology topology_of(const HostView& view) {
  std::vector<gpu::GpuIndex> gpu_of;
  for (const gpu::VisibleDevice& device : view.visible) gpu_of.push_back(device.gpu);
  return {view.snapshot.gpus, view.snapshot.links, gpu_of};
}

Result<std::vector<gpu::VisibleIndex>> select_from(const HostView& view, const gpu::SelectionRequest& request,
                                                   const HolderOf& holder_of) {
  auto chosen = gpu::select(request, candidates_of(view, holder_of), topology_of(view));
  if (!chosen && view.visible.empty() && !view.snapshot.explanation.empty()) {
    Error error = chosen.error();
    error.what += " (" + view.snapshot.explanation + ")";
    return error;
  }
  return chosen;
}

// Everything that would satisfy the request: what no later process may take first.
std::vector<std::string> acceptable(const HostView& view, const gpu::SelectionRequest& request) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < view.visible.size(); ++i) {
    const auto& uuid = view.visible[i].uuid;
    if (!uuid) continue;
    const bool named = std::ranges::any_of(
        request.ids, [&](const gpu::GpuName& id) { return id.is_of(static_cast<gpu::VisibleIndex>(i), uuid); });
    if (request.ids.empty() || named) names.push_back(uuid->text);
  }
  return names;
}

// This process and its ancestors.
std::vector<pid_t> own_processes() {
  std::vector<pid_t> own;
  for (pid_t pid = ::getpid(); pid > 0 && std::ranges::find(own, pid) == own.end();) {
    own.push_back(pid);
    const auto status = read_process_status(pid);
    pid = status ? status->parent : 0;
  }
  return own;
}

// A MIG instance has none: the driver does not report reliably on which instance a process computes.
std::map<std::string, std::string> occupants_of(const gpu::Snapshot& snapshot,
                                                const std::vector<lease::ResourceName>& surrounding,
                                                std::span<const pid_t> own) {
  constexpr std::size_t most_characters = 160;
  std::map<std::string, std::string> found;
  for (const gpu::Gpu& gpu : snapshot.gpus) {
    if (!gpu.facts.uuid || gpu.facts.mig_mode) continue;
    if (std::ranges::find(surrounding, gpu.facts.uuid->text) != surrounding.end()) continue;
    const auto occupants = gpu::occupants(gpu, own);
    if (!occupants.empty())
      found.emplace(gpu.facts.uuid->text, lease::printable(gpu::describe(occupants), most_characters));
  }
  return found;
}

}  // namespace

HostSources sources_from_environment() {
  HostSources sources;
  sources.inventory_file = environment_variable("MUSTER_GPUS");
  sources.nvml_library = environment_variable("MUSTER_NVML_LIBRARY");
  sources.mask = environment_variable("CUDA_VISIBLE_DEVICES");
  sources.lease_folder = lease::LeaseTable::default_folder();
  return sources;
}

const gpu::Gpu& HostView::gpu_of(const gpu::VisibleDevice& device) const {
  const auto found = std::ranges::find(snapshot.gpus, device.gpu, [](const gpu::Gpu& gpu) { return gpu.facts.index; });
  if (found == snapshot.gpus.end()) throw std::logic_error("a visible device belongs to no GPU of its snapshot");
  return *found;
}

std::optional<gpu::VisibleIndex> HostView::visible_index(gpu::GpuIndex gpu) const {
  for (std::size_t i = 0; i < visible.size(); ++i)
    if (visible[i].gpu == gpu) return static_cast<gpu::VisibleIndex>(i);
  return std::nullopt;
}

std::vector<gpu::VisibleDevice> Choice::visible_devices() const {
  std::vector<gpu::VisibleDevice> chosen;
  for (const gpu::VisibleIndex index : devices)
    chosen.push_back(view.visible[static_cast<std::size_t>(gpu::number(index))]);
  return chosen;
}

Host::Host(HostSources sources)
    : sources_(std::move(sources)), inventory_(open_inventory(sources_)), leases_(sources_.lease_folder) {}

Result<HostView> Host::look_at_gpus(gpu::Detail detail) {
  auto snapshot = inventory_->read(detail);
  if (!snapshot) return snapshot.error();
  auto visible = gpu::read_mask(sources_.mask, snapshot->gpus);
  if (!visible) return visible.error();
  // Processes listed in a file are not on this machine.
  const std::vector<pid_t> own = sources_.inventory_file ? std::vector<pid_t>{} : own_processes();
  auto occupants = occupants_of(*snapshot, leases_.surrounding(), own);
  return HostView{std::move(*snapshot), sources_.mask, std::move(*visible), {}, std::move(occupants)};
}

Result<HostView> Host::look(gpu::Detail detail) {
  auto view = look_at_gpus(detail);
  if (!view) return view;
  const auto note_holder = [&](const std::optional<gpu::GpuUuid>& uuid) {
    if (!uuid) return;
    if (auto holder = leases_.holder_of(uuid->text)) view->holders.emplace(uuid->text, std::move(*holder));
  };
  for (const gpu::Gpu& gpu : view->snapshot.gpus) {
    note_holder(gpu.facts.uuid);
    for (const gpu::MigInstance& instance : gpu.facts.mig_instances) note_holder(instance.uuid);
  }
  // A holder may have left between the two looks: its processes would be taken for another's.
  const bool has_others = std::ranges::any_of(
      view->occupants, [&](const auto& occupant) { return !view->holders.contains(occupant.first); });
  if (!has_others) return view;
  auto again = look_at_gpus(detail);
  if (again) again->holders = std::move(view->holders);
  return again;
}

// Inside the gate of the leases, so that choosing and taking are one step. choice is set to what the lease is for.
Result<lease::Lease> Host::take(const gpu::SelectionRequest& request, const LeaseRequest& lease_request, Choice& choice) {
  const std::vector<std::string> accepted = acceptable(choice.view, request);
  const auto look_again = [&]() -> Result<void> {
    auto view = look_at_gpus(gpu::Detail::everything);
    if (!view) return view.error();
    choice.view = std::move(*view);
    return {};
  };
  bool is_first_try = true;
  const auto choose = [&](const lease::Occupancy& occupancy) -> Result<std::vector<lease::ResourceName>> {
    const bool is_old = std::exchange(is_first_try, false);
    if (!is_old)
      if (auto looked = look_again(); !looked) return looked.error();
    const auto holder_of = [&](const std::string& uuid) -> std::optional<std::string> {
      if (const auto holder = occupancy.holder_of(uuid)) return describe(*holder);
      if (std::ranges::find(accepted, uuid) == accepted.end()) return "nobody, but it appeared after the wait began";
      if (const auto waiter = occupancy.earlier_waiter_for(uuid)) return describe(*waiter) + ", who waits for it";
      return std::nullopt;
    };
    auto chosen = select_from(choice.view, request, holder_of);
    if (!chosen && chosen.error().kind == Error::Kind::refused && is_old) {
      // A process that computed on a GPU before the gate may have been its last holder, which is gone by now.
      if (auto looked = look_again(); !looked) return looked.error();
      chosen = select_from(choice.view, request, holder_of);
    }
    if (!chosen) return chosen.error();
    choice.devices = std::move(*chosen);
    std::vector<lease::ResourceName> names;
    for (const gpu::VisibleDevice& device : choice.visible_devices()) names.push_back(device.uuid->text);
    return names;
  };
  const auto on_waiting = [&](const Error& reason) {
    if (lease_request.on_waiting) lease_request.on_waiting(reason.what);
  };
  auto held = leases_.acquire(accepted, choose, {lease_request.command}, lease_request.wait, on_waiting, lease_request.stop);
  if (!held) return held;
  if (auto back = wait_for_memory(*held, lease_request); !back) return back.error();
  return held;
}

Result<Grant> Host::hold(const gpu::SelectionRequest& request, const LeaseRequest& lease_request, gpu::MaskForm form) {
  auto view = look_at_gpus(gpu::Detail::everything);
  if (!view) return view.error();
  Choice choice{std::move(*view), {}, {}};
  Grant grant;
  if (lease_request.share) {
    gpu::SelectionRequest shared = request;
    shared.allow_busy = true;
    auto chosen = select_from(choice.view, shared, [](const std::string&) { return std::nullopt; });
    if (!chosen) return chosen.error();
    choice.devices = std::move(*chosen);
  } else {
    auto held = take(request, lease_request, choice);
    if (!held) return held.error();
    grant.lease = std::move(*held);
  }
  auto mask = mask_for(choice.view, choice.devices, form);
  if (!mask) return mask.error();
  grant.mask = std::move(*mask);
  grant.devices = choice.visible_devices();
  grant.environment = gpu::mask_environment(grant.mask);
  if (grant.lease) {
    grant.environment.push_back(grant.lease->pass_on_exec());
    // Looked at again: the last holder is gone by now.
    const auto now = look_at_gpus(gpu::Detail::memory);
    if (!now) return now.error();
    for (const gpu::VisibleDevice& device : grant.devices)
      if (const auto occupant = now->occupants.find(device.uuid->text); occupant != now->occupants.end())
        grant.notes.push_back(
            fmt::format("GPU {} is in use by {}, without a lease", gpu::number(device.gpu), occupant->second));
  }
  grant.view = std::move(choice.view);
  return grant;
}

Result<Grant> Host::hold_visible(std::size_t first, std::size_t count, const LeaseRequest& lease_request) {
  const auto view = look_at_gpus(gpu::Detail::memory);
  if (!view) return view.error();
  gpu::SelectionRequest request;
  request.allow_unhealthy = true;  // the mask is the user's choice
  request.offered = {.wait = true, .share = true};
  for (std::size_t index = first; index < view->visible.size() && index < first + count; ++index)
    request.ids.emplace_back(static_cast<gpu::VisibleIndex>(index));
  if (request.ids.empty()) return Grant{};
  return hold(request, lease_request, gpu::MaskForm::as_inherited);
}

Result<void> Host::wait_for_memory(lease::Lease& held, const LeaseRequest& lease_request) {
  const auto deadline = std::chrono::steady_clock::now() + lease_request.reclaim;
  bool told = false;
  while (true) {
    const auto snapshot = inventory_->read(gpu::Detail::memory);
    if (!snapshot) return snapshot.error();
    std::string missing;
    for (std::size_t i = 0; i < held.resources().size(); ++i) {
      for (const gpu::Gpu& gpu : snapshot->gpus) {
        if (!gpu.facts.uuid || gpu.facts.uuid->text != held.resources()[i]) continue;
        const auto& last = held.previous_holders()[i];
        if (last && lease_request.reclaim > std::chrono::milliseconds(0) && !memory_is_back(*last, gpu))
          missing += fmt::format("\n  GPU {}: {} in use, {} when {} took it", gpu::number(gpu.facts.index),
                                 to_string(*gpu.reading.memory_used), to_string(*last->memory_before), describe(*last));
        else if (gpu.reading.memory_used)
          held.record_memory_before(held.resources()[i], *gpu.reading.memory_used);
      }
    }
    if (missing.empty()) return {};
    if (std::chrono::steady_clock::now() >= deadline || lease_request.stop.stop_requested())
      return Error{
          Error::Kind::refused,
          fmt::format("memory of the last holder is not back after {}{}", muster::to_string(lease_request.reclaim), missing),
          "muster gpus shows the processes that use it; --reclaim 0s takes the GPU as it is"};
    if (!std::exchange(told, true) && lease_request.on_waiting)
      lease_request.on_waiting("memory of the last holder is not back yet" + missing);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Result<std::vector<gpu::VisibleIndex>> pick(const HostView& view, const gpu::SelectionRequest& request) {
  return select_from(view, request, [&](const std::string& uuid) -> std::optional<std::string> {
    const auto found = view.holders.find(uuid);
    return found == view.holders.end() ? std::nullopt : std::optional(describe(found->second));
  });
}

Result<Choice> choose(HostView view, const gpu::SelectionRequest& request, gpu::MaskForm form) {
  auto devices = pick(view, request);
  if (!devices) return devices.error();
  auto mask = mask_for(view, *devices, form);
  if (!mask) return mask.error();
  return Choice{std::move(view), std::move(*devices), std::move(*mask)};
}

Result<std::string> mask_for(const HostView& view, std::span<const gpu::VisibleIndex> chosen, gpu::MaskForm form) {
  // CUDA counts only the GPUs it can reach: next to a lost or forbidden one, its numbers and the driver's differ.
  const std::vector<gpu::Gpu>& gpus = view.snapshot.gpus;
  const bool has_lost = std::ranges::any_of(gpus, &gpu::Gpu::lost);
  const bool has_gap = !gpus.empty() && gpu::number(gpus.back().facts.index) != std::ssize(gpus) - 1;
  return gpu::compose_mask(view.visible, chosen, has_lost || has_gap ? gpu::MaskForm::uuid : form);
}

}  // namespace muster::host
