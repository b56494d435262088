#include "plan/balanced_cuts.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "plan/load_fraction.hpp"

namespace muster::plan {
namespace {

using Limits = std::vector<std::int64_t>;  // per device: the most that may be used, fixed bytes included

// What is left for units under a limit; nothing on a device without capacity.
std::int64_t room(const SplitDevice& device, std::int64_t limit) {
  return device.capacity == 0 ? -1 : limit - device.fixed;
}

struct Sweep {
  std::vector<std::size_t> cuts;
  bool complete = false;
  std::optional<LoadFraction> wanted;  // incomplete: the least load that would let some device take one unit more
};

Sweep sweep(const UnitChain& chain, std::size_t begin, std::size_t end, std::span<const SplitDevice> devices,
            const Limits& limits) {
  Sweep result;
  std::size_t position = begin;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const SplitDevice& device = devices[i];
    const std::size_t from = position;
    if (device.capacity > 0) {
      const auto reach = chain.forward(from, end, room(device, limits[i]));
      position = reach.end;
      const LoadFraction next{device.fixed + reach.next_cost, device.capacity};
      if (position < end && next.used <= device.capacity && (!result.wanted || next < *result.wanted))
        result.wanted = next;
    }
    result.cuts.push_back(position);
  }
  result.complete = position == end;
  return result;
}

LoadFraction largest_load(const UnitChain& chain, std::size_t begin, const std::vector<std::size_t>& cuts,
                          std::span<const SplitDevice> devices) {
  LoadFraction largest;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (cuts[i] > begin)
      largest = std::max(largest, LoadFraction{devices[i].fixed + chain.cost(begin, cuts[i]), devices[i].capacity});
    begin = cuts[i];
  }
  return largest;
}

Limits limits_at(LoadFraction load, std::span<const SplitDevice> devices) {
  Limits limits;
  for (const SplitDevice& device : devices) limits.push_back(std::min(device.capacity, load.most_on(device.capacity)));
  return limits;
}

// Limits for a load about half way between two, low < high. Rounding does no harm: they are at least those of low and
// below those of high on every device.
Limits limits_between(LoadFraction low, LoadFraction high, std::span<const SplitDevice> devices) {
  const double middle = (low.value() + high.value()) / 2;
  Limits limits;
  for (const SplitDevice& device : devices) {
    const double wished = std::min(middle * static_cast<double>(device.capacity), 9e18);
    const std::int64_t least = low.most_on(device.capacity);
    const std::int64_t most = std::max(least, std::min(device.capacity, high.most_below_on(device.capacity)));
    limits.push_back(std::clamp(static_cast<std::int64_t>(wished), least, most));
  }
  return limits;
}

// Note [Exact bottleneck]
// `low` is a load that no split can beat, `high` that of a split that exists. A complete sweep between them gives a
// split whose own largest load is below high: the new high. An incomplete one gives the least load at which any device
// would have taken one unit more; below it the sweep would have gone the same way, so no split beats it: the new low.
// Both are loads of actual stretches, compared as fractions; when they meet, that is the optimum.
LoadFraction least_largest_load(const UnitChain& chain, std::size_t begin, std::size_t end,
                                std::span<const SplitDevice> devices) {
  LoadFraction low;
  LoadFraction high = largest_load(chain, begin, filled_cuts(chain, begin, end, devices), devices);
  while (low < high) {
    const Sweep tried = sweep(chain, begin, end, devices, limits_between(low, high, devices));
    if (tried.complete)
      high = largest_load(chain, begin, tried.cuts, devices);
    else
      low = tried.wanted ? std::max(low, *tried.wanted) : high;
  }
  return high;
}

// Glues pairs that can be on one device within the limits, the most bytes first.
void keep_together(UnitChain& chain, std::vector<SharedBytes> shared, std::size_t begin, std::size_t end,
                   std::span<const SplitDevice> devices, const Limits& limits) {
  std::stable_sort(shared.begin(), shared.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::int64_t largest_room = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) largest_room = std::max(largest_room, room(devices[i], limits[i]));
  for (const SharedBytes& pair : shared) {
    if (pair.first < begin || pair.second >= end) continue;
    if (chain.bytes_between(pair.first, pair.second + 1) > largest_room) continue;
    auto before = chain.glue_state();
    chain.glue(pair.first, pair.second);
    if (!sweep(chain, begin, end, devices, limits).complete) chain.restore(std::move(before));
  }
}

std::vector<std::size_t> latest_starts(const UnitChain& chain, std::size_t begin, std::size_t end,
                                       std::span<const SplitDevice> devices, const Limits& limits) {
  std::vector<std::size_t> starts(devices.size() + 1, end);
  for (std::size_t i = devices.size(); i-- > 0;)
    starts[i] = chain.backward(begin, starts[i + 1], room(devices[i], limits[i]));
  return starts;
}

// Within the limits, each device takes the part whose load is nearest to the mean of what is left.
std::vector<std::size_t> even_cuts(const UnitChain& chain, std::size_t begin, std::size_t end,
                                   std::span<const SplitDevice> devices, const Limits& limits) {
  const auto starts = latest_starts(chain, begin, end, devices, limits);
  double capacity = 0;
  double fixed = 0;
  for (const SplitDevice& device : devices) {
    capacity += static_cast<double>(device.capacity);
    fixed += device.capacity > 0 ? static_cast<double>(device.fixed) : 0;
  }
  std::vector<std::size_t> cuts;
  std::size_t position = begin;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const SplitDevice& device = devices[i];
    const auto own = static_cast<double>(device.capacity);
    std::size_t best = position;
    if (device.capacity > 0) {
      const double mean = (static_cast<double>(chain.bytes_to_come(position, end)) + fixed) / capacity;
      const auto distance = [&](std::int64_t cost) {
        return std::abs(static_cast<double>(device.fixed + cost) / own - mean);
      };
      double nearest = starts[i + 1] <= position ? distance(0) : INFINITY;
      chain.walk(position, end, [&](std::size_t cut, std::int64_t cost) {
        if (cost > room(device, limits[i])) return false;
        if (cut < starts[i + 1]) return true;
        if (distance(cost) < nearest) {
          nearest = distance(cost);
          best = cut;
        }
        return static_cast<double>(device.fixed + cost) / own < mean;
      });
      fixed -= static_cast<double>(device.fixed);
      capacity -= own;
    }
    cuts.push_back(best);
    position = best;
  }
  return cuts;
}

Limits capacities(std::span<const SplitDevice> devices) {
  Limits limits;
  for (const SplitDevice& device : devices) limits.push_back(device.capacity);
  return limits;
}

}  // namespace

std::vector<std::size_t> filled_cuts(const UnitChain& chain, std::size_t begin, std::size_t end,
                                     std::span<const SplitDevice> devices) {
  return sweep(chain, begin, end, devices, capacities(devices)).cuts;
}

std::vector<std::size_t> latest_fit(const UnitChain& chain, std::size_t begin, std::size_t end,
                                    std::span<const SplitDevice> devices) {
  return latest_starts(chain, begin, end, devices, capacities(devices));
}

std::vector<std::size_t> balanced_cuts(UnitChain chain, const std::vector<SharedBytes>& shared, std::size_t begin,
                                       std::size_t end, std::span<const SplitDevice> devices) {
  const Limits limits = limits_at(least_largest_load(chain, begin, end, devices), devices);
  keep_together(chain, shared, begin, end, devices, limits);
  return even_cuts(chain, begin, end, devices, limits);
}

}  // namespace muster::plan
