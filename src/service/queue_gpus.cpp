#include "service/queue_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "gpu/health.hpp"
#include "gpu/topology.hpp"
#include "host/memory_wait.hpp"
#include "lease/gate.hpp"
#include "lease/lease_folder.hpp"

namespace muster::service {
namespace {

constexpr std::chrono::seconds longest_wait(30);

// Absent if the GPUs had no holder before, or it is not known what was in use then.
std::function<Result<void>()> wait_for_those_before(const host::HostSources& sources, const lease::Lease& held) {
  std::vector<host::UsedBefore> before;
  for (std::size_t i = 0; i < held.resources().size(); ++i)
    if (const auto& last = held.previous_holders()[i]; last && last->memory_before)
      before.push_back({held.resources()[i], *last->memory_before});
  return before.empty() ? nullptr : host::memory_wait(sources, std::move(before), longest_wait);
}

// Any user can keep the lease table closed. That holds up the conductor for no longer than this: the start is
// postponed.
Result<void> wait_for_gate(const std::filesystem::path& lease_folder) {
  constexpr std::chrono::milliseconds patience(500);
  const auto folder = lease::LeaseFolder::prepare(lease_folder);
  if (!folder) return folder.error();
  const auto gate = lease::Gate::enter(*folder, patience);
  return gate ? Result<void>() : gate.error();
}

// The conductor says "job 7: python train.py".
lease::Purpose purpose_of(const std::string& command) {
  const auto colon = command.find(": ");
  if (colon == std::string::npos) return {command};
  return {command.substr(colon + 2), command.substr(0, colon)};
}

// None if all links between GPUs are alike: then it does not matter which GPUs a job gets.
std::vector<queue::GpuListing::Link> links_of(const host::HostView& view) {
  std::map<gpu::GpuIndex, std::vector<std::string>> devices;  // several where a GPU is split
  for (const gpu::VisibleDevice& device : view.visible)
    if (device.uuid) devices[device.gpu].push_back(device.uuid->text);
  std::vector<queue::GpuListing::Link> links;
  for (const gpu::Link& link : view.snapshot.links)
    for (const std::string& a : devices[link.a])
      for (const std::string& b : devices[link.b]) links.push_back({a, b, gpu::link_worth(link)});
  const std::size_t pairs =
      view.visible.size() * (view.visible.size() - std::min<std::size_t>(view.visible.size(), 1)) / 2;
  const bool are_alike = links.size() == pairs && std::ranges::all_of(links, [&](const auto& link) {
                           return link.worth == links.front().worth;
                         });
  if (are_alike) links.clear();
  return links;
}

}  // namespace

QueueGpus::QueueGpus(host::HostSources sources) : sources_(std::move(sources)), leases_(sources_.lease_folder) {}

Result<queue::GpuListing> QueueGpus::look() {
  listed_.clear();
  host::Host host(sources_);
  auto view = host.look();
  if (!view) {
    failure_ = view.error().what;
    return view.error();
  }
  failure_.clear();
  view_ = std::move(*view);
  queue::GpuListing listing;
  for (const gpu::VisibleDevice& device : view_.visible) {
    if (!device.uuid) continue;
    listing.gpus.push_back({device.uuid->text, gpu::sickness(view_.gpu_of(device))});
    if (!listing.gpus.back().sickness) listed_.push_back(device.uuid->text);
  }
  listing.links = links_of(view_);
  return listing;
}

std::variant<queue::GpuGrant, std::vector<queue::HeldGpu>, Error> QueueGpus::take(std::span<const std::string> names,
                                                                                  const std::string& command) {
  queue::GpuGrant grant;
  if (names.empty()) {
    grant.environment = {{"CUDA_VISIBLE_DEVICES", ""}};
    return grant;
  }
  if (auto open = wait_for_gate(sources_.lease_folder); !open) return open.error();
  if (auto looked = look_for_occupants(); !looked) return held_by_others(names, looked.error().what);
  const auto is_usable = [&](const std::string& name) {
    return std::ranges::find(listed_, name) != listed_.end() && !view_.occupants.contains(name);
  };
  auto held = std::ranges::all_of(names, is_usable)
                  ? leases_.acquire(names, purpose_of(command))
                  : Result<lease::Lease>(Error{Error::Kind::refused, "a GPU is not available", ""});
  if (!held) {
    if (held.error().kind != Error::Kind::refused) return held.error();
    return held_by_others(names, held.error().what);  // another process waits for it, and goes first
  }
  std::vector<gpu::VisibleIndex> chosen;
  for (std::size_t index = 0; index < view_.visible.size(); ++index)
    if (view_.visible[index].uuid && std::ranges::find(names, view_.visible[index].uuid->text) != names.end())
      chosen.push_back(static_cast<gpu::VisibleIndex>(index));
  const auto mask = host::mask_for(view_, chosen, gpu::MaskForm::as_inherited);
  if (!mask) return mask.error();
  grant.environment = gpu::mask_environment(*mask);
  grant.before_start = wait_for_those_before(sources_, *held);
  // Not measured: a successor waits for all that no living process accounts for, unless this lease is settled.
  for (const std::string& name : names) held->record_memory_before(name, ByteCount{});
  grant.environment.push_back(held->pass_on_exec());
  grant.lease = std::move(*held);
  return grant;
}

std::optional<std::string> QueueGpus::holder_of(const std::string& name) {
  if (!failure_.empty()) return fmt::format("nobody, but the GPUs are not known: {}", failure_);
  if (std::ranges::find(listed_, name) == listed_.end())
    return "nobody, but the queue's conductor does not see it, or it is ill";
  if (const auto refused = refused_.find(name); refused != refused_.end()) {
    if (std::chrono::steady_clock::now() < refused->second.until) return refused->second.reason;
    refused_.erase(refused);
  }
  if (const auto holder = leases_.holder_of(name)) {
    if (!holder->remark.empty()) refuse_for_a_while(name, describe(*holder));  // it takes a while to find that out
    return describe(*holder);
  }
  if (const auto occupant = view_.occupants.find(name); occupant != view_.occupants.end())
    return occupant->second + ", without a lease";
  return std::nullopt;
}

void QueueGpus::refuse_for_a_while(const std::string& name, const std::string& reason) {
  constexpr std::chrono::seconds a_while(1);
  refused_[name] = {reason, std::chrono::steady_clock::now() + a_while};
}

// What computes on the GPUs now: what was seen when the conductor last looked may be out of date.
Result<void> QueueGpus::look_for_occupants() {
  host::Host host(sources_);
  auto view = host.look(gpu::Detail::memory);
  if (!view) return view.error();
  view_.occupants = std::move(view->occupants);
  view_.holders = std::move(view->holders);
  return {};
}

// The holder of each requested GPU; the first GPU if none is seen to have a holder. So a lock that cannot be
// seen from here (of another pid namespace) is tried for once a second, not in a loop.
std::vector<queue::HeldGpu> QueueGpus::held_by_others(std::span<const std::string> names, const std::string& reason) {
  std::vector<queue::HeldGpu> others;
  for (const std::string& name : names)
    if (auto holder = holder_of(name)) others.push_back({name, std::move(*holder)});
  if (!others.empty()) return others;
  refuse_for_a_while(names.front(), reason);
  return {{names.front(), reason}};
}

}  // namespace muster::service
