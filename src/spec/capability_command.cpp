#include "spec/capability_command.hpp"

namespace muster::spec {

std::optional<CapabilityCommand> command_of(Capability capability) {
  if (capability == Capability::experiments) return CapabilityCommand{"muster run", "docs/experiments.md"};
  if (capability == Capability::sweeps) return CapabilityCommand{"muster sweep", "docs/sweep.md"};
  return std::nullopt;
}

}  // namespace muster::spec
