#include "spec/capability.hpp"

#include <array>

namespace muster::spec {
namespace {

struct CapabilityFacts {
  Capability capability;
  std::string_view name;
  bool available;
};

constexpr std::array capabilities{
    CapabilityFacts{Capability::training, "training", true},
    CapabilityFacts{Capability::generation, "generation", true},
    CapabilityFacts{Capability::environments, "simulated environments", false},
    CapabilityFacts{Capability::value_guidance, "value-guided algorithms", false},
    CapabilityFacts{Capability::quantized_loading, "4- and 8-bit loading", true},
    CapabilityFacts{Capability::low_rank_adapters, "LoRA", true},
    CapabilityFacts{Capability::tensor_parallelism, "tensor parallelism", false},
    CapabilityFacts{Capability::pipeline_parallelism, "pipeline parallelism", false},
    CapabilityFacts{Capability::deepspeed, "DeepSpeed", false},
    CapabilityFacts{Capability::mpi, "MPI", false},
    CapabilityFacts{Capability::several_hosts, "training over several hosts", true},
    CapabilityFacts{Capability::experiments, "experiments in rounds", false},
    CapabilityFacts{Capability::sweeps, "sweeps", false},
};

const CapabilityFacts& facts(Capability capability) { return capabilities[static_cast<std::size_t>(capability)]; }

constexpr bool in_order() {
  for (std::size_t i = 0; i < capabilities.size(); ++i)
    if (capabilities[i].capability != static_cast<Capability>(i)) return false;
  return true;
}
static_assert(in_order(), "the table lists the capabilities in the order of the enum");

}  // namespace

std::string_view name(Capability capability) { return facts(capability).name; }
bool is_available(Capability capability) { return facts(capability).available; }

}  // namespace muster::spec
