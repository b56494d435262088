// The places of a sweep at which trials run side by side, and the GPUs that each of them has.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "service/host.hpp"

namespace muster::service {

// As asked for; what is absent follows from the rest: shape_slots().
struct SlotWish {
  std::vector<std::string> ids;   // GPUs, in this order
  std::optional<int> gpus;        // so many of them
  std::optional<int> per_trial;   // GPUs of each trial
  std::optional<int> runs;        // trials side by side
  bool first_gpus = false;        // run after run gets the next ones, from the first that is visible on
  std::optional<int> total;       // of those, the runs may use so many together; absent: all
  bool one_trial_on_all = false;  // one trial at a time on all GPUs that are named, where nothing else is said
  bool without_gpus = false;
};

// How many places there are, and which GPUs are asked for.
struct SlotShape {
  std::optional<gpu::SelectionRequest> request;  // absent: the CPU
  int per_slot = 0;                              // GPUs
  std::optional<int> slots;                      // absent: as many as the GPUs that are free allow
};

// Pure. Nothing is rounded: GPUs that cannot be divided evenly, or are more than there are, are refused.
Result<SlotShape> shape_slots(const SlotWish& wish, std::size_t visible);

struct Slot {
  std::vector<int> gpus;                                         // physical numbers
  std::vector<std::pair<std::string, std::string>> environment;  // of everything that runs there
  std::string words() const;                                     // "GPUs 4,5", "CPU"
};

struct Slots {
  std::optional<Grant> grant;  // of all of them together; absent: the CPU, or only looked at
  std::vector<Slot> slots;
};

// Chooses without taking.
Result<Slots> plan_slots(Host& host, const SlotWish& wish, const LeaseWish& lease);
// Chooses and takes, as one step: held as long as the result is.
Result<Slots> take_slots(Host& host, const SlotWish& wish, const LeaseWish& lease);

// What a trial waits for before it starts on GPUs that another one had: until no more of their memory is in use than
// living processes account for, at most so long: service/memory_wait.hpp.
std::function<Result<void>()> wait_for_trial_before(HostSources sources, const Slot& slot,
                                                    std::chrono::milliseconds most);

}  // namespace muster::service
