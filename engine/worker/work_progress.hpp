// Reports now and then how many tokens were computed, and the most memory that a GPU's tensors had at once. For a CPU
// rank the controlling program sees the memory itself.
#pragma once

#include <chrono>
#include <cstdint>

#include "worker/job.hpp"

namespace muster::worker {

class WorkProgress {
 public:
  explicit WorkProgress(Job& job) : job_(job) {}

  void add(std::int64_t tokens) { tokens_ += tokens; }
  void tell_now_and_then();
  // Reports what has not been reported yet.
  void tell();

 private:
  Job& job_;
  std::int64_t tokens_ = 0;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

}  // namespace muster::worker
