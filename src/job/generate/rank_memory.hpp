// How much memory the ranks of a job take: as they report, or, for CPU ranks that do not, as the kernel does.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

#include "job/generate/generate.hpp"
#include "wire/event.hpp"

namespace muster::job {

class PeakMemory {
 public:
  // Hello, progress of "memory" (peak bytes, of the limit); any other message is an occasion to look.
  void on_event(const wire::Event& event);
  // For the rank that has taken the most.
  std::optional<RankMemory> highest() const;

 private:
  struct Rank {
    std::int64_t pid = 0;
    bool tells = false;
    RankMemory memory;
    std::chrono::steady_clock::time_point looked{};
  };
  std::map<int, Rank> ranks_;
};

// The most memory a living process has had resident, in bytes; absent: it is gone.
std::optional<std::int64_t> peak_resident(std::int64_t pid);

}  // namespace muster::job
