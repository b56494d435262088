// Memory that runs out where a test wants it to.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <limits>
#include <optional>

#include "tensor/torch.hpp"

namespace muster::train::testing {

// The CPU's memory, of which a thread can be given so many pieces and no more, once, or none of a size, ever.
class ScarceMemory final : public c10::Allocator {
 public:
  static ScarceMemory& instance() {
    static ScarceMemory one;
    return one;
  }
  static inline thread_local std::optional<int> pieces_left = {};
  static inline thread_local std::size_t least = 1;  // bytes; smaller pieces can always be had
  static inline thread_local std::size_t most = std::numeric_limits<std::size_t>::max();  // larger ones cannot

  c10::DataPtr allocate(std::size_t bytes) override {
    TORCH_CHECK_WITH(OutOfMemoryError, bytes <= most, "no piece of that size");
    if (bytes >= least && pieces_left && (*pieces_left)-- == 0) {
      pieces_left.reset();
      TORCH_CHECK_WITH(OutOfMemoryError, false, "memory ran out");
    }
    return usual_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return usual_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { usual_->copy_data(to, from, bytes); }

 private:
  ScarceMemory() : usual_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, 100); }
  c10::Allocator* usual_;
};

}  // namespace muster::train::testing
