// Which devices a job's ranks compute on, by what was asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "gpu/selection.hpp"
#include "host/host.hpp"
#include "spec/element_type.hpp"
#include "spec/run_spec.hpp"

namespace muster::host {

// What ranks may compute on.
struct ChosenDevices {
  std::vector<gpu::VisibleIndex> gpus;  // empty: CPU ranks
  int ranks = 1;
  std::size_t visible = 0;  // GPUs
  bool has_bfloat16 = false;
  // Most models that may work side by side; absent: as many as the ranks allow, since that many were asked for.
  std::optional<std::size_t> most_replicas = {};
  std::vector<std::string> notes = {};  // what the user should know about the choice
  std::optional<HostView> view = {};    // that the GPUs were chosen from; absent: CPU ranks
};

// distributed.enabled: false. Settings that ask for more at the same time are refused when they are resolved.
inline bool is_one_process(const spec::DistributedSpec& asked) { return asked.enabled == false; }

// Whether something computes on the devices, or only the plan is wanted: GPUs that exist only in a file are enough
// for a plan.
enum class Purpose { compute, plan };

// No silent fallback: requested GPUs that are not there are a refusal. If nothing is requested: all that are free, as
// far as there is work for each, and the CPU, with a note, where they exist only in a file.
// work: how many pieces ranks can share; absent: one at a time.
Result<ChosenDevices> choose_devices(Host& host, const spec::DistributedSpec& asked, std::optional<std::int64_t> work,
                                     Purpose purpose);

// The type that weights are held in by default: bfloat16 where the devices have it.
spec::DataType type_to_hold(spec::DataType asked, const ChosenDevices& devices);
// For a type that is not automatic.
spec::ElementType element_type(spec::DataType type);

}  // namespace muster::host
