// What this version of muster can do. A setting of a missing capability is known and checked, and refused
// by name when a command would need it; it is never ignored.
#pragma once

#include <string_view>

namespace muster::spec {

enum class Capability {
  training,
  generation,
  environments,
  value_guidance,
  quantized_loading,
  low_rank_adapters,
  tensor_parallelism,
  pipeline_parallelism,
  deepspeed,
  mpi,
  several_hosts,
  experiments,
  sweeps,
};

// "4- and 8-bit loading"
std::string_view name(Capability capability);

bool is_available(Capability capability);

}  // namespace muster::spec
