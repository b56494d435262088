// Whether this process runs inside a lease of another muster command, and what it may then use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lease/lease.hpp"
#include "lease/lease_folder.hpp"

namespace muster::lease {

struct Nesting {
  int depth = 0;                        // 0: inside no lease
  std::vector<ResourceName> resources;  // of the lease around us

  bool allows(const ResourceName& resource) const;
  // The depth at which others compete with us for this resource.
  int depth_of(const ResourceName& resource) const;
};

inline constexpr const char* nesting_variable = "MUSTER_LEASE";

std::string to_variable(int depth, const std::string& id, const std::vector<ResourceName>& resources);

// What the variable says, where the lease it names is still held; else no nesting.
Nesting find_nesting(const LeaseFolder& folder, const std::optional<std::string>& variable);

}  // namespace muster::lease
