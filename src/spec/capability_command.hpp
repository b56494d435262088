// Capabilities that belong to one command, which has its own file for them.
#pragma once

#include <optional>
#include <string_view>

#include "spec/capability.hpp"

namespace muster::spec {

struct CapabilityCommand {
  std::string_view command, page;  // "muster sweep", "docs/sweep.md"
};

std::optional<CapabilityCommand> command_of(Capability capability);

}  // namespace muster::spec
