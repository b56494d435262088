#include "service/queue_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "gpu/health.hpp"
#include "gpu/topology.hpp"
#include "service/memory_wait.hpp"

namespace muster::service {
namespace {

constexpr std::chrono::seconds longest_wait(30);

// Absent where nobody had the GPUs before, or nothing is known of what was in use then.
std::function<Result<void>()> wait_for_those_before(const HostSources& sources, const lease::Lease& held) {
  std::vector<UsedBefore> before;
  for (std::size_t i = 0; i < held.resources().size(); ++i)
    if (const auto& last = held.previous_holders()[i]; last && last->memory_before)
      before.push_back({held.resources()[i], *last->memory_before});
  return before.empty() ? nullptr : memory_wait(sources, std::move(before), longest_wait);
}

// None where every GPU is linked to every other alike: then it does not matter which a job gets.
std::vector<queue::GpuListing::Link> links_of(const HostView& view) {
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

QueueGpus::QueueGpus(HostSources sources) : sources_(std::move(sources)), leases_(sources_.lease_folder) {}

Result<queue::GpuListing> QueueGpus::look() {
  listed_.clear();
  Host host(sources_);
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
  const auto is_listed = [&](const std::string& name) { return std::ranges::find(listed_, name) != listed_.end(); };
  auto held = std::ranges::all_of(names, is_listed)
                  ? leases_.acquire(names, lease::Purpose{command})
                  : Result<lease::Lease>(Error{Error::Kind::refused, "a GPU is not listed", ""});
  if (!held) {
    if (held.error().kind != Error::Kind::refused) return held.error();
    std::vector<queue::HeldGpu> others;
    for (const std::string& name : names)
      if (auto holder = holder_of(name)) others.push_back({name, std::move(*holder)});
    if (others.empty()) others.push_back({names.front(), held.error().what});  // somebody waits for it, and goes first
    return others;
  }
  std::vector<gpu::VisibleIndex> chosen;
  for (std::size_t index = 0; index < view_.visible.size(); ++index)
    if (view_.visible[index].uuid && std::ranges::find(names, view_.visible[index].uuid->text) != names.end())
      chosen.push_back(static_cast<gpu::VisibleIndex>(index));
  const auto mask = mask_for(view_, chosen, gpu::MaskForm::as_inherited);
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
  const auto holder = leases_.holder_of(name);
  return holder ? std::optional(describe(*holder)) : std::nullopt;
}

}  // namespace muster::service
