#include "job/launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/count_of.hpp"
#include "base/text.hpp"
#include "host/reclaim.hpp"
#include "launch/launcher.hpp"
#include "system/allotted_cores.hpp"
#include "system/open_descriptors.hpp"

namespace muster::job {
namespace {

using launch::Contract;

// The GPUs of a launch, in the order of the local ranks.
struct RankGpus {
  std::vector<gpu::VisibleDevice> devices;
  std::vector<std::string> entries;                              // of the mask, one per device
  std::vector<std::pair<std::string, std::string>> environment;  // of every rank
  std::vector<std::string> notes;
  std::optional<lease::Lease> lease;
  bool picked = false;
};

bool needs_one_gpu_per_rank(Contract contract) {
  return contract == Contract::isolated || contract == Contract::own_gpu_first;
}

// Whether the GPUs have to be looked at: if nothing depends on them, the driver is not even loaded.
// Whether the number of ranks follows from that of the GPUs.
bool are_counted(const LaunchJobRequest& job) { return job.ranks && std::holds_alternative<RanksPer>(*job.ranks); }

bool needs_gpus(const LaunchJobRequest& job) {
  if (job.without_gpus) return false;
  return !job.lease.share || job.selection || job.numa || are_counted(job) || needs_one_gpu_per_rank(job.request.contract);
}

// Whether only the holders of the GPUs have to be known: with torchrun's options alone. That is quick.
bool only_leases_gpus(const LaunchJobRequest& job) {
  return !job.without_gpus && !job.lease.share && !job.selection && !job.numa && !are_counted(job) && !job.request.place &&
         !needs_one_gpu_per_rank(job.request.contract);
}

int first_local_rank(const LaunchJobRequest& job) { return job.request.place ? job.request.place->first_local_rank : 0; }

// One of several tasks on a host, bound by the cluster engine to a GPU of its own: the only one it sees.
bool is_bound_task(const LaunchJobRequest& job, std::size_t visible) {
  return job.request.place && job.request.place->local_world_size > 1 && visible == 1;
}

Result<int> count_ranks(const RanksRequest& job, std::size_t visible) {
  if (const auto* count = std::get_if<int>(&job)) return *count;
  const RanksPer per = std::get<RanksPer>(job);
  if (per == RanksPer::gpu && visible == 0)
    return Error{Error::Kind::refused, "one rank per GPU was asked for, and no GPU is visible",
                 "--nproc-per-node cpu, or a number; muster doctor says why no GPU is seen"};
  if (per == RanksPer::gpu || (per == RanksPer::automatic && visible > 0)) return static_cast<int>(visible);
  return allotted_cores();
}

// The GPUs that ranks will use by torch's rule, cuda:LOCAL_RANK, of those that are visible.
gpu::SelectionRequest as_they_are(const LaunchJobRequest& job, int ranks, std::size_t visible) {
  gpu::SelectionRequest request;
  const std::size_t first = is_bound_task(job, visible) ? 0 : static_cast<std::size_t>(first_local_rank(job));
  for (std::size_t index = first; index < visible && index < first + static_cast<std::size_t>(ranks); ++index)
    request.ids.emplace_back(static_cast<gpu::VisibleIndex>(index));
  request.allow_unhealthy = true;  // the mask is the user's choice
  request.offered = {.wait = true, .share = true};
  return request;
}

// One GPU for every rank, in the order of the ranks, is what all contracts but the collective one need.
Result<void> check_contract(const LaunchJobRequest& job, int ranks, std::size_t gpus) {
  const Contract contract = job.request.contract;
  if (!needs_one_gpu_per_rank(contract) || gpus >= static_cast<std::size_t>(ranks)) return {};
  return Error{Error::Kind::refused,
               fmt::format("--{} gives every rank a GPU of its own: {}, {}", to_word(contract), count_of(ranks, "rank"),
                           count_of(gpus, "GPU")),
               fmt::format("--nproc-per-node {}", std::max<std::size_t>(gpus, 1))};
}

// torchrun's rule for --virtual-local-rank, which looks at the text of the mask only.
Result<std::string> virtual_entry(const std::optional<std::string>& inherited, int local_rank) {
  if (!inherited) return std::to_string(local_rank);
  const std::vector<std::string> entries = split(*inherited, ',');
  if (static_cast<std::size_t>(local_rank) >= entries.size())
    return Error{Error::Kind::refused,
                 fmt::format("--virtual-local-rank: CUDA_VISIBLE_DEVICES={} has no entry for local rank {}", *inherited,
                             local_rank),
                 fmt::format("--nproc-per-node {}", entries.size())};
  return std::string(trim(entries[static_cast<std::size_t>(local_rank)]));
}

Result<std::vector<std::optional<std::string>>> masks_for(Contract contract, const LaunchJobRequest& job, const host::Host& host,
                                                          const RankGpus& gpus, int ranks) {
  std::vector<std::optional<std::string>> masks(static_cast<std::size_t>(ranks));
  for (int local_rank = 0; local_rank < ranks; ++local_rank) {
    const auto position = static_cast<std::size_t>(local_rank);
    std::optional<std::string>& mask = masks[position];
    switch (contract) {
      case Contract::collective:
        if (gpus.picked) mask = join(gpus.entries, ",");
        break;
      case Contract::isolated:
        mask = gpus.entries[position];
        break;
      case Contract::own_gpu_first: {
        std::vector<std::string> rotated = gpus.entries;
        std::ranges::rotate(rotated, rotated.begin() + local_rank);
        mask = join(rotated, ",");
        break;
      }
      case Contract::virtual_local_rank: {
        if (position < gpus.entries.size()) {
          mask = gpus.entries[position];
        } else {
          auto entry = virtual_entry(host.sources().mask, local_rank);
          if (!entry) return entry.error();
          mask = *entry;
        }
        break;
      }
    }
    if (job.without_gpus) mask = "";
  }
  return masks;
}

Result<std::vector<std::vector<int>>> bind_to_numa(const LaunchJobRequest& job, const host::HostView& view, const RankGpus& gpus,
                                                   int ranks) {
  if (!job.numa) return std::vector<std::vector<int>>{};
  if (gpus.devices.size() < static_cast<std::size_t>(ranks))
    return Error{
        Error::Kind::refused,
        fmt::format("--numa-binding puts each rank beside its GPU: {}, {}", count_of(ranks, "rank"),
                    count_of(gpus.devices.size(), "GPU")),
        "leave --numa-binding out"};
  std::vector<std::optional<int>> nodes;
  for (const gpu::VisibleDevice& device : gpus.devices) nodes.push_back(view.gpu_of(device).facts.numa_node);
  return gpu::bind_cpus(*job.numa, nodes, allowed_cpus());
}

// Allotted cores divided by the ranks of this host, if it is not set and there are several.
std::optional<int> threads_for(int ranks_on_host) {
  if (ranks_on_host <= 1 || std::getenv("OMP_NUM_THREADS") != nullptr) return std::nullopt;
  return std::max(allotted_cores() / ranks_on_host, 1);
}

RankGpus taken(host::Grant grant, bool picked) {
  RankGpus gpus;
  gpus.picked = picked;
  gpus.devices = std::move(grant.devices);
  if (!grant.mask.empty()) gpus.entries = split(grant.mask, ',');
  gpus.notes = std::move(grant.notes);
  gpus.lease = std::move(grant.lease);
  for (auto& variable : grant.environment)
    if (variable.first != "CUDA_VISIBLE_DEVICES" && (picked || variable.first != "CUDA_DEVICE_ORDER"))
      gpus.environment.push_back(std::move(variable));
  return gpus;
}

// Chosen, and also taken if take is set. view becomes the look that they were chosen from.
Result<RankGpus> choose_gpus(host::Host& host, const LaunchJobRequest& job, host::HostView& view, int ranks, bool take) {
  RankGpus gpus;
  gpus.picked = job.selection.has_value();
  const gpu::SelectionRequest request =
      job.selection ? *job.selection : as_they_are(job, ranks, view.visible.size());
  if (!gpus.picked && request.ids.empty()) return gpus;
  if (take) {
    auto grant = host.hold(request, job.lease, job.form);
    if (!grant) return grant.error();
    view = std::move(grant->view);
    return taken(std::move(*grant), gpus.picked);
  }
  gpu::SelectionRequest look = request;
  look.allow_leased = look.allow_leased || job.lease.share;
  look.allow_busy = look.allow_busy || job.lease.share;
  auto seen = host.look();
  if (!seen) return seen.error();
  auto choice = host::choose(std::move(*seen), look, job.form);
  if (!choice) return choice.error();
  gpus.devices = choice->visible_devices();
  gpus.entries = split(choice->mask, ',');
  view = std::move(choice->view);
  return gpus;
}

struct Prepared {
  LaunchPlan plan;
  RankGpus gpus;
};

std::vector<std::optional<RankDevice>> devices_of(const host::HostView& view, const RankGpus& gpus, int ranks) {
  std::vector<std::optional<RankDevice>> devices(static_cast<std::size_t>(ranks));
  for (std::size_t position = 0; position < std::min(devices.size(), gpus.devices.size()); ++position) {
    const gpu::VisibleDevice& device = gpus.devices[position];
    const auto found = std::ranges::find(view.visible, device);
    devices[position] = RankDevice{static_cast<gpu::VisibleIndex>(found - view.visible.begin()), device.gpu,
                                   device.uuid ? device.uuid->text : ""};
  }
  return devices;
}

Result<Prepared> prepare(host::Host& host, const LaunchJobRequest& job, bool take) {
  const bool quick = take && only_leases_gpus(job);
  host::HostView view;
  // GPUs that are picked are looked at when they are chosen.
  if (needs_gpus(job) && !quick && (!job.selection || are_counted(job))) {
    auto seen = host.look(gpu::Detail::memory);
    if (!seen) return seen.error();
    view = std::move(*seen);
  }
  Prepared prepared;
  LaunchPlan& plan = prepared.plan;
  plan.request = job.request;
  const auto counted = count_ranks(job.ranks.value_or(1), view.visible.size());
  if (!counted) return counted.error();
  int ranks = *counted;
  if (quick) {
    auto grant = host.hold_visible(0, static_cast<std::size_t>(ranks), job.lease);
    if (!grant) return grant.error();
    prepared.gpus = taken(std::move(*grant), false);
  } else if (needs_gpus(job)) {
    auto gpus = choose_gpus(host, job, view, ranks, take);
    if (!gpus) return gpus.error();
    prepared.gpus = std::move(*gpus);
  }
  if (!job.ranks && job.selection) ranks = static_cast<int>(prepared.gpus.devices.size());
  plan.request.local_ranks = ranks;
  if (is_bound_task(job, view.visible.size()) && plan.request.contract == Contract::collective) {
    plan.request.contract = Contract::virtual_local_rank;
    plan.notes.push_back("this task is bound to one GPU: it is device 0, and LOCAL_RANK is 0");
  }
  if (auto checked = check_contract(job, ranks, prepared.gpus.devices.size()); !checked) return checked.error();
  auto masks = masks_for(plan.request.contract, job, host, prepared.gpus, ranks);
  if (!masks) return masks.error();
  auto cpus = bind_to_numa(job, view, prepared.gpus, ranks);
  if (!cpus) return cpus.error();
  const int ranks_on_host = job.request.place ? job.request.place->local_world_size : ranks;
  plan.resources = {std::move(*masks), prepared.gpus.environment, std::move(*cpus),
                    job.threads ? job.threads : threads_for(ranks_on_host)};
  plan.resources.environment.insert(plan.resources.environment.end(), job.environment.begin(), job.environment.end());
  if (!quick) plan.devices = devices_of(view, prepared.gpus, ranks);
  plan.picked = prepared.gpus.picked;
  plan.notes.insert(plan.notes.end(), prepared.gpus.notes.begin(), prepared.gpus.notes.end());
  if (plan.resources.threads && !job.threads)
    plan.notes.push_back(fmt::format("OMP_NUM_THREADS={} for each rank ({}, {}); set it to change that",
                                     *plan.resources.threads, count_of(allotted_cores(), "core"),
                                     count_of(ranks_on_host, "rank")));
  return prepared;
}

// Before another round begins, no more may be in use than living processes account for.
std::function<bool()> memory_watch(host::Host& host, const RankGpus& gpus) {
  if (!gpus.lease) return {};
  std::vector<gpu::GpuIndex> leased;
  for (const gpu::VisibleDevice& device : gpus.devices) leased.push_back(device.gpu);
  lease::Holder last_round;
  last_round.memory_before = ByteCount{};
  return [&host, leased, last_round] {
    const auto now = host.look(gpu::Detail::memory);
    if (!now) return true;  // waiting does not fix a driver that fails
    return std::ranges::all_of(now->snapshot.gpus, [&](const gpu::Gpu& gpu) {
      return std::ranges::find(leased, gpu.facts.index) == leased.end() || host::memory_is_back(last_round, gpu);
    });
  };
}

// Ranks get the standard streams, the leases that this process is in, its own and those around it, and what they
// should inherit; not what a shell or a build tool happened to leave open.
void keep_descriptors_from_ranks(const std::filesystem::path& leases, const std::vector<int>& inherited) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::canonical(leases, ignored);
  for (const int number : open_descriptors()) {
    const auto target = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", number), ignored);
    if (number <= STDERR_FILENO || (!folder.empty() && target.parent_path() == folder)) continue;
    if (std::ranges::find(inherited, number) != inherited.end()) continue;
    ::fcntl(number, F_SETFD, FD_CLOEXEC);
  }
}

}  // namespace

Result<LaunchPlan> plan_launch(host::Host& host, const LaunchJobRequest& job) {
  auto prepared = prepare(host, job, false);
  if (!prepared) return prepared.error();
  return std::move(prepared->plan);
}

Result<int> run_launch(host::Host& host, const LaunchJobRequest& job, const LaunchListener& listener) {
  keep_descriptors_from_ranks(host.leases().folder(), job.inherited);
  auto rendezvous_point = launch::bind_rendezvous(job.request);
  if (!rendezvous_point) return rendezvous_point.error();
  auto prepared = prepare(host, job, true);
  if (!prepared) return prepared.error();
  for (const std::string& text : prepared->plan.notes) listener.note(text);
  const launch::LaunchHooks hooks{
      listener.note,
      job.request.maximum_restarts > 0 ? memory_watch(host, prepared->gpus) : std::function<bool()>(),
      job.lease.reclaim,
      listener.started,
      listener.failed,
      listener.interrupted};
  auto code = launch::launch(prepared->plan.request, prepared->plan.resources, std::move(*rendezvous_point), hooks);
  // Every process is gone by now, and its memory with it.
  if (prepared->gpus.lease) prepared->gpus.lease->settle();
  return code;
}

}  // namespace muster::job
