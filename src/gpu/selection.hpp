// Which GPUs a job gets. A pure function of what is asked and what is there: asking for N gives N, or an error that
// says what stood in the way of each GPU.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/byte_count.hpp"
#include "base/result.hpp"
#include "gpu/identity.hpp"
#include "gpu/topology.hpp"

namespace muster::gpu {

// A model that must fit, weights and what the work adds to them.
struct ModelNeed {
  ByteCount size;
  double margin = 1.5;
};

// Options that the asking command has: only those are named as remedies.
struct OfferedOptions {
  bool up_to = false;
  bool wait = false;
  bool share = false;
};

struct SelectionRequest {
  std::vector<GpuName> ids;      // their order is kept
  std::optional<int> count;      // absent: all that qualify
  bool up_to = false;            // fewer than count will do, at least one
  // Either one says how much use by others is acceptable: busy GPUs then qualify, too.
  std::optional<ByteCount> minimum_free;
  std::optional<int> maximum_utilization;  // percent
  std::optional<ModelNeed> model;          // the smallest set that holds it in equal parts
  bool least_loaded = false;
  bool allow_unhealthy = false;
  bool allow_leased = false;
  bool allow_busy = false;  // GPUs on which processes outside all leases compute
  OfferedOptions offered;
};

// One visible device, reduced to what selection looks at. Its position in the list is its VisibleIndex.
struct Candidate {
  GpuIndex gpu{};
  std::optional<ByteCount> total;
  std::optional<ByteCount> used;
  std::optional<ByteCount> free;
  std::optional<int> utilization;
  std::optional<GpuUuid> uuid;
  std::optional<std::string> sickness;
  std::optional<std::string> holder;    // who leases it, in words
  std::optional<std::string> occupant;  // who computes on it outside all leases, in words
};

// The chosen devices, in the order the job should use them. Idle ones come before busy ones; among equals those that are
// best connected to each other are taken.
Result<std::vector<VisibleIndex>> select(const SelectionRequest& request, std::span<const Candidate> candidates,
                                         const Topology& topology);

}  // namespace muster::gpu
