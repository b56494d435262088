// How well GPUs reach each other, and which of them a multi-GPU job gets.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "schedule/job.hpp"

namespace muster::schedule {

struct GpuLink {
  GpuNumber a{}, b{};
  int worth = 1;  // more is better; two GPUs without a link are worth nothing to each other
  bool operator==(const GpuLink&) const = default;
};

// The `count` of the free GPUs whose links to each other, and to those the job has, are worth the most; of equals those
// whose loss costs the rest the least, then those that come first.
std::vector<GpuNumber> best_linked(std::span<const GpuLink> links, std::span<const GpuNumber> free, std::size_t count,
                                   std::span<const GpuNumber> beside);

}  // namespace muster::schedule
