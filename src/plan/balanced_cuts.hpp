// Where to cut a chain of units so that the largest relative load of the devices is as small as it can be.
#pragma once

#include <span>
#include <vector>

#include "plan/layer_split.hpp"
#include "plan/unit_chain.hpp"

namespace muster::plan {

// The end of each device's stretch when each, in order, takes all that fits its capacity. Less than `end` at the last
// one: no split of [begin, end) over these devices exists.
std::vector<std::size_t> filled_cuts(const UnitChain& chain, std::size_t begin, std::size_t end,
                                     std::span<const SplitDevice> devices);

// Where each device's stretch begins when each, from the last to the first, takes all that fits; one more than there
// are devices, the last being `end`.
std::vector<std::size_t> latest_fit(const UnitChain& chain, std::size_t begin, std::size_t end,
                                    std::span<const SplitDevice> devices);

// SplitGoal::balanced for units [begin, end), which must fit. The end of each device's stretch.
std::vector<std::size_t> balanced_cuts(UnitChain chain, const std::vector<SharedBytes>& shared, std::size_t begin,
                                       std::size_t end, std::span<const SplitDevice> devices);

}  // namespace muster::plan
