// How a model is laid over the devices of a run of muster generate: whole on each of them, or split by layers over
// some, repeated as often as the devices allow.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "plan/plan.hpp"
#include "spec/values.hpp"
#include "wire/generate_task.hpp"

namespace muster::job {

struct PlacementOptions {
  plan::Question question;  // of inference. Its devices are the GPUs to use; none: CPU ranks
  int ranks = 1;            // CPU ranks; with GPUs: if more than there are, they share them evenly
  // model.max_memory, as written. For CPU ranks the numbers are ranks, and cpu is what all of them may use together.
  spec::DeviceLimits limits = {};
  std::optional<std::size_t> most_replicas = {};
};

struct Placement {
  plan::Plan plan;                  // its ranks are the processes of the run, replica after replica
  std::vector<wire::Stage> stages;  // of a replica; empty: every rank has all layers
  wire::Offload in_host_memory;
  wire::Offload on_disk;

  std::size_t replicas() const { return plan.ranks.size() / std::max<std::size_t>(stages.size(), 1); }
};

// Without a device map, and with `auto`: whole on every device where it fits there, else over as few as it takes. The
// other rules and a map as written make one replica. Parts on cpu or disk only where the map or the limits name these.
// bad_input: a map that a row of ranks cannot carry out. A plan that does not fit has a refusal.
Result<Placement> place_model(const PlacementOptions& options);

// The usual number of sequences at once, or half of it, or a quarter …, whatever fits, down to one: the question then
// has it. is_whole: the model must not be split to fit.
Result<Placement> place_batch(PlacementOptions& options, std::int64_t usual, bool is_whole);

// What a CPU rank takes in addition to the model: its process and the libraries in it.
inline constexpr std::int64_t process_bytes = std::int64_t{136} << 20;

}  // namespace muster::job
