// The places of a sweep at which trials run side by side, and the GPUs that each of them has.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "host/host.hpp"

namespace muster::service {

// As requested; what is absent follows from the rest: shape_slots().
struct SlotOptions {
  std::vector<std::string> ids;   // GPUs, in this order
  std::optional<int> gpus;        // this many of them
  std::optional<int> per_trial;   // GPUs of each trial
  std::optional<int> runs;        // trials side by side
  bool first_gpus = false;        // each run gets the next ones, starting with the first visible GPU
  std::optional<int> total;       // the runs may use this many of those together; absent: all
  bool one_trial_on_all = false;  // one trial at a time on all named GPUs, by default
  bool without_gpus = false;
};

// How many slots there are, and which GPUs are requested.
struct SlotShape {
  std::optional<gpu::SelectionRequest> request;  // absent: the CPU
  int per_slot = 0;                              // GPUs
  std::optional<int> slots;                      // absent: as many as the free GPUs allow
};

// Pure. Nothing is rounded: GPUs that cannot be divided evenly, or more than there are, are refused.
Result<SlotShape> shape_slots(const SlotOptions& options, std::size_t visible);

struct Slot {
  std::vector<int> gpus;                                         // physical numbers
  std::vector<std::pair<std::string, std::string>> environment;  // of everything that runs there
  bool on_cpu = false;  // its GPUs, if it has any, exist only in a file: muster's own training computes on the CPU
  std::string words() const;                                     // "GPUs 4,5", "CPU"
};

struct Slots {
  std::optional<host::Grant> grant;  // for all of them together; absent: the CPU, or not taken
  std::vector<Slot> slots;
  std::vector<std::string> notes = {};  // what the user should know
};

// Chooses without taking.
Result<Slots> plan_slots(host::Host& host, const SlotOptions& options, const host::LeaseRequest& lease);
// Chooses and takes, in one step: held as long as the result lives.
Result<Slots> take_slots(host::Host& host, const SlotOptions& options, const host::LeaseRequest& lease);

// What a trial waits for before it starts on GPUs that another one used: until no more of their memory is in use than
// living processes account for, for a limited time: host/memory_wait.hpp.
std::function<Result<void>()> wait_for_trial_before(host::HostSources sources, const Slot& slot,
                                                    std::chrono::milliseconds most);

}  // namespace muster::service
