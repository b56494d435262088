#include "queue/gpu_watch.hpp"

#include <algorithm>

namespace muster::queue {
namespace {

using schedule::GpuNumber;
using schedule::GpuState;

// A single look that does not show a GPU may be an accident.
constexpr int looks_until_lost = 2;

std::optional<GpuNumber> number_of(const std::string& name, const schedule::Scheduler& scheduler) {
  const auto& all = scheduler.gpus().all();
  const auto found = std::ranges::find(all, name, &schedule::GpuStatus::name);
  if (found == all.end()) return std::nullopt;
  return GpuNumber{static_cast<int>(found - all.begin())};
}

}  // namespace

/* Note [GPUs that are not there]
   - One that is ill is lost: who runs on it is stopped, and begins again elsewhere.
   - One that was shown, and is not any more, is lost too. GPUs do fall off the bus.
   - One that this conductor never saw is only held: a conductor may be shown less than the one before it, whose jobs
     are well.
   - Where the look itself failed nothing is known. What is free is held until the next look; what runs goes on. */
std::vector<schedule::Happening> GpuWatch::compare(const Result<GpuListing>& seen,
                                                   const schedule::Scheduler& scheduler) {
  std::vector<schedule::Happening> told;
  const auto& known = scheduler.gpus().all();
  for (std::size_t position = 0; position < known.size(); ++position) {
    const GpuNumber gpu{static_cast<int>(position)};
    const schedule::GpuStatus& status = known[position];
    if (!seen) {
      if (status.state == GpuState::free) told.push_back(schedule::GpuHeld{gpu, seen.error().what});
      continue;
    }
    const auto found = std::ranges::find(seen->gpus, status.name, &GpuListing::Gpu::name);
    if (found != seen->gpus.end()) {
      missing_.erase(status.name);
      if (found->sickness && status.state != GpuState::lost)
        told.push_back(schedule::GpuLost{gpu, *found->sickness});
      else if (!found->sickness && status.state == GpuState::lost)
        told.push_back(schedule::GpuReturned{gpu});
    } else if (!shown_.contains(status.name)) {
      if (status.state == GpuState::free) told.push_back(schedule::GpuHeld{gpu, "not shown to this queue"});
    } else if (++missing_[status.name] >= looks_until_lost && status.state != GpuState::lost) {
      told.push_back(schedule::GpuLost{gpu, "it is not listed any more"});
    }
  }
  if (!seen) return told;
  for (const GpuListing::Gpu& gpu : seen->gpus) {
    shown_.insert(gpu.name);
    if (!gpu.sickness && !number_of(gpu.name, scheduler)) told.push_back(schedule::GpuFound{gpu.name});
  }
  return told;
}

std::optional<schedule::GpusLinked> GpuWatch::compare_links(const Result<GpuListing>& seen,
                                                            const schedule::Scheduler& scheduler) const {
  if (!seen) return std::nullopt;
  schedule::GpusLinked linked;
  for (const GpuListing::Link& link : seen->links) {
    const auto a = number_of(link.a, scheduler), b = number_of(link.b, scheduler);
    if (a && b) linked.links.push_back({std::min(*a, *b), std::max(*a, *b), link.worth});
  }
  std::ranges::sort(linked.links, {}, [](const schedule::GpuLink& link) { return std::pair(link.a, link.b); });
  return linked.links == scheduler.links() ? std::nullopt : std::optional(std::move(linked));
}

}  // namespace muster::queue
