// Which devices a job's ranks compute on, by what was asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "gpu/selection.hpp"
#include "service/host.hpp"
#include "spec/element_type.hpp"
#include "spec/run_spec.hpp"

namespace muster::service {

// What ranks may compute on.
struct ChosenDevices {
  std::vector<gpu::VisibleIndex> gpus;  // empty: CPU ranks
  int ranks = 1;
  std::size_t visible = 0;  // GPUs
  bool has_bfloat16 = false;
  // Models that work side by side, at most; absent: as many as the ranks allow, since so many were asked for.
  std::optional<std::size_t> most_replicas = {};
};

// No silent fallback: GPUs that are asked for and not there are a refusal. Where nothing is asked for: all that are
// free, as far as there is work for each. work: pieces of it that ranks can share; absent: one at a time.
Result<ChosenDevices> choose_devices(Host& host, const spec::DistributedSpec& asked, std::optional<std::int64_t> work);

// The same devices once more, by name: for a question about them.
void name_devices(spec::DistributedSpec& asked, const ChosenDevices& chosen);

// What weights are held in where nothing is said: bfloat16 where the devices have it.
spec::DataType type_to_hold(spec::DataType asked, const ChosenDevices& devices);
// Of a type that is not automatic.
spec::ElementType element_type(spec::DataType type);

}  // namespace muster::service
