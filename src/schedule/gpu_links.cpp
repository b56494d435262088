#include "schedule/gpu_links.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

namespace muster::schedule {
namespace {

class Worth {
 public:
  explicit Worth(std::span<const GpuLink> links) {
    for (const GpuLink& link : links) {
      std::int64_t& known = worth_[std::minmax(link.a, link.b)];
      known = std::max<std::int64_t>(known, link.worth);
    }
  }
  std::int64_t between(GpuNumber a, GpuNumber b) const {
    const auto found = worth_.find(std::minmax(a, b));
    return found == worth_.end() ? 0 : found->second;
  }
  std::int64_t to_all(GpuNumber gpu, std::span<const GpuNumber> others) const {
    std::int64_t sum = 0;
    for (const GpuNumber other : others)
      if (other != gpu) sum += between(gpu, other);
    return sum;
  }

 private:
  std::map<std::pair<GpuNumber, GpuNumber>, std::int64_t> worth_;
};

struct Choice {
  std::vector<GpuNumber> gpus;
  std::int64_t gained = 0;  // among themselves and with those the job already has
  std::int64_t lost = 0;    // links from them to free GPUs that are not taken
};

// Starting with one GPU, always adds the one that gains the most.
Choice grow_from(GpuNumber first, const Worth& worth, std::span<const GpuNumber> free, std::size_t count,
                 std::span<const GpuNumber> beside) {
  Choice choice;
  std::vector<GpuNumber> left(free.begin(), free.end());
  const auto take = [&](GpuNumber gpu) {
    choice.gained += worth.to_all(gpu, beside) + worth.to_all(gpu, choice.gpus);
    choice.gpus.push_back(gpu);
    std::erase(left, gpu);
  };
  take(first);
  while (choice.gpus.size() < count) {
    const auto value = [&](GpuNumber gpu) {
      return std::pair(worth.to_all(gpu, beside) + worth.to_all(gpu, choice.gpus), -worth.to_all(gpu, left));
    };
    take(*std::ranges::max_element(left, {}, value));  // the first of equals
  }
  for (const GpuNumber gpu : choice.gpus) choice.lost += worth.to_all(gpu, left);
  return choice;
}

}  // namespace

std::vector<GpuNumber> best_linked(std::span<const GpuLink> links, std::span<const GpuNumber> free, std::size_t count,
                                   std::span<const GpuNumber> beside) {
  if (count == 0) return {};
  if (count >= free.size()) return {free.begin(), free.end()};
  const Worth worth(links);
  Choice best = grow_from(free.front(), worth, free, count, beside);
  for (const GpuNumber first : free.subspan(1)) {
    Choice choice = grow_from(first, worth, free, count, beside);
    if (std::tuple(-choice.gained, choice.lost) < std::tuple(-best.gained, best.lost)) best = std::move(choice);
  }
  return best.gpus;
}

}  // namespace muster::schedule
