#include "service/sweep_slots.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/count_of.hpp"
#include "base/text.hpp"
#include "host/described_gpus.hpp"
#include "host/memory_wait.hpp"
#include "system/allotted_cores.hpp"

namespace muster::service {
namespace {

Error refusal(std::string what, std::string remedy) {
  return {Error::Kind::refused, std::move(what), std::move(remedy)};
}

constexpr int most_slots = 4096;  // each is a process at least

bool asks_for_gpus(const SlotOptions& options) {
  return !options.ids.empty() || options.gpus.value_or(0) > 0 || options.per_trial.value_or(0) > 0;
}

// This many GPUs for each of this many runs, from the first one on.
Result<SlotShape> shape_of_first_gpus(const SlotOptions& options, std::size_t visible) {
  const int per_slot = options.per_trial.value_or(1), slots = options.runs.value_or(1);
  const int total = options.total.value_or(static_cast<int>(visible));
  const long long wanted = static_cast<long long>(per_slot) * slots;
  if (total > static_cast<int>(visible))
    return refusal(fmt::format("{} in all asked for, and {} visible", count_of(total, "GPU"), visible),
                   "muster gpus lists them");
  if (wanted > total)
    return refusal(fmt::format("{} of {} each need {}, and there are {}", count_of(slots, "run"), count_of(per_slot, "GPU"), wanted,
                               total),
                   total < per_slot ? fmt::format("at most {} for each run", count_of(total, "GPU"))
                                    : fmt::format("at most {} of {}", count_of(total / per_slot, "run"), count_of(per_slot, "GPU")));
  SlotShape shape{gpu::SelectionRequest(), per_slot, slots};
  shape.request->offered = {.wait = true, .share = true};
  for (int index = 0; index < static_cast<int>(wanted); ++index) shape.request->ids.emplace_back(static_cast<gpu::VisibleIndex>(index));
  return shape;
}

Result<SlotShape> shape_of_named_gpus(const SlotOptions& options, gpu::SelectionRequest request, int gpus) {
  int per_slot = options.per_trial.value_or(1);
  if (!options.per_trial && options.runs)
    per_slot = gpus / *options.runs;
  else if (!options.per_trial && options.one_trial_on_all)
    per_slot = gpus;
  const int slots = options.runs.value_or(per_slot == 0 ? 0 : gpus / per_slot);
  const long long wanted = static_cast<long long>(per_slot) * slots;
  if (per_slot > 0 && slots > 0 && wanted == gpus) return SlotShape{std::move(request), per_slot, slots};
  if (options.runs && options.per_trial)
    return refusal(
        fmt::format("{} of {} each need {}, and {} are asked for", count_of(*options.runs, "run"), count_of(per_slot, "GPU"),
                    wanted, gpus),
        fmt::format("--num-gpus {}", wanted));
  return refusal(options.runs ? fmt::format("{} cannot be divided evenly among {}", count_of(gpus, "GPU"), count_of(*options.runs, "run"))
                           : fmt::format("{} cannot be divided into runs of {}", count_of(gpus, "GPU"), per_slot),
                 "name as many GPUs as all runs need together");
}

// Slots on the CPU share the cores if the number of threads is not set.
void share_cores(std::vector<Slot>& slots) {
  for (Slot& slot : slots) {
    slot.on_cpu = true;
    if (slots.size() > 1 && std::getenv("OMP_NUM_THREADS") == nullptr)
      slot.environment.emplace_back("OMP_NUM_THREADS",
                                    std::to_string(std::max(allotted_cores() / static_cast<int>(slots.size()), 1)));
  }
}

// With GPUs that exist only in a file, these decide which trials run, and the CPU computes.
void consider_described_gpus(const host::HostSources& sources, const host::HostView& view, Slots& slots) {
  const auto file = host::file_of_described_gpus(sources, view);
  if (!file) return;
  share_cores(slots.slots);
  slots.notes.push_back(host::described_gpus_words(*file) + ": trials of muster train compute on the CPU");
}

// entries: of the mask of all of them.
Result<std::vector<Slot>> cut_into_slots(const SlotShape& shape, const std::vector<gpu::VisibleDevice>& devices,
                                         const std::vector<std::string>& entries) {
  const std::size_t each = static_cast<std::size_t>(shape.per_slot);
  const std::size_t count = shape.slots ? static_cast<std::size_t>(*shape.slots) : devices.size() / each;
  if (count == 0)
    return refusal(fmt::format("a trial needs {}, and {} are free", count_of(each, "GPU"), devices.size()),
                   "muster gpus shows who has them; --wait waits for them");
  std::vector<Slot> slots(count);
  for (std::size_t slot = 0; slot < count; ++slot) {
    std::vector<std::string> mask;
    for (std::size_t place = slot * each; place < (slot + 1) * each; ++place) {
      slots[slot].gpus.push_back(number(devices[place].gpu));
      mask.push_back(entries[place]);
    }
    slots[slot].environment = gpu::mask_environment(join(mask, ","));
  }
  return slots;
}

Result<SlotShape> look_and_shape(host::Host& host, const SlotOptions& options) {
  if (options.without_gpus) return shape_slots(options, 0);
  const auto view = host.look(gpu::Detail::memory);
  if (!view) return view.error();
  return shape_slots(options, view->visible.size());
}

Slots cpu_slots(const SlotShape& shape) {
  Slots slots;
  slots.slots.resize(static_cast<std::size_t>(shape.slots.value_or(1)));
  for (Slot& slot : slots.slots) slot.environment = gpu::mask_environment("");
  share_cores(slots.slots);
  return slots;
}

}  // namespace

std::string Slot::words() const {
  if (gpus.empty()) return "CPU";
  return fmt::format("GPU{} {}", gpus.size() == 1 ? "" : "s", fmt::join(gpus, ","));
}

Result<SlotShape> shape_slots(const SlotOptions& options, std::size_t visible) {
  if (options.runs.value_or(1) < 1 || options.gpus.value_or(1) < 1 || options.per_trial.value_or(0) < 0 ||
      options.total.value_or(1) < 1)
    return Error{Error::Kind::bad_input, "a number of GPUs or runs is below 1", "name at least one"};
  const bool on_the_cpu = options.without_gpus || options.per_trial == 0 || (visible == 0 && !asks_for_gpus(options));
  if (on_the_cpu && (options.per_trial.value_or(0) > 0 || !options.ids.empty() || options.gpus))
    return Error{Error::Kind::bad_input, "the CPU is asked for, and GPUs are", "leave one of the two out"};
  if (options.runs.value_or(1) > most_slots)
    return Error{Error::Kind::bad_input, fmt::format("{} runs side by side are asked for", *options.runs),
                 fmt::format("at most {} are possible", most_slots)};
  if (on_the_cpu) return SlotShape{std::nullopt, 0, options.runs.value_or(1)};
  if (visible == 0)
    return refusal("GPUs are asked for, and none is visible", "--device cpu --runs N, or muster doctor");
  if (options.first_gpus) return shape_of_first_gpus(options, visible);
  gpu::SelectionRequest request;
  request.offered = {.wait = true, .share = true};
  request.ids = gpu::gpu_names(options.ids);
  if (!options.ids.empty()) return shape_of_named_gpus(options, std::move(request), static_cast<int>(options.ids.size()));
  if (options.gpus) {
    request.count = options.gpus;
    return shape_of_named_gpus(options, std::move(request), *options.gpus);
  }
  if (options.runs) {
    // More than there are: how many more does not matter.
    const long long wanted = static_cast<long long>(*options.runs) * options.per_trial.value_or(1);
    request.count = static_cast<int>(std::min<long long>(wanted, std::numeric_limits<int>::max()));
    return SlotShape{std::move(request), options.per_trial.value_or(1), options.runs};
  }
  request.count = static_cast<int>(visible);
  request.up_to = true;
  return SlotShape{std::move(request), options.per_trial.value_or(1), std::nullopt};
}

Result<Slots> plan_slots(host::Host& host, const SlotOptions& options, const host::LeaseRequest& lease) {
  const auto shape = look_and_shape(host, options);
  if (!shape) return shape.error();
  if (!shape->request) return cpu_slots(*shape);
  gpu::SelectionRequest request = *shape->request;
  request.allow_leased = request.allow_busy = lease.share;
  auto view = host.look();
  if (!view) return view.error();
  const auto choice = host::choose(std::move(*view), request);
  if (!choice) return choice.error();
  auto cut = cut_into_slots(*shape, choice->visible_devices(), split(choice->mask, ','));
  if (!cut) return cut.error();
  Slots slots{std::nullopt, std::move(*cut)};
  consider_described_gpus(host.sources(), choice->view, slots);
  return slots;
}

Result<Slots> take_slots(host::Host& host, const SlotOptions& options, const host::LeaseRequest& lease) {
  const auto shape = look_and_shape(host, options);
  if (!shape) return shape.error();
  if (!shape->request) return cpu_slots(*shape);
  auto grant = host.hold(*shape->request, lease, gpu::MaskForm::as_inherited);
  if (!grant) return grant.error();
  auto cut = cut_into_slots(*shape, grant->devices, split(grant->mask, ','));
  if (!cut) return cut.error();
  // What the holder of all of them passes on in addition to the mask: the lease that commands below are in.
  const auto mask = gpu::mask_environment(grant->mask);
  for (const auto& variable : grant->environment)
    if (std::ranges::find(mask, variable) == mask.end())
      for (Slot& slot : *cut) slot.environment.push_back(variable);
  Slots slots{std::move(*grant), std::move(*cut)};
  consider_described_gpus(host.sources(), slots.grant->view, slots);
  return slots;
}

std::function<Result<void>()> wait_for_trial_before(host::HostSources sources, const Slot& slot,
                                                    std::chrono::milliseconds most) {
  if (slot.gpus.empty() || most.count() == 0) return {};
  std::vector<host::UsedBefore> before;
  for (const int gpu : slot.gpus) before.push_back({std::to_string(gpu), ByteCount{}});
  return host::memory_wait(std::move(sources), std::move(before), most);
}

}  // namespace muster::service
