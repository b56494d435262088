// Terms of exact sums for one kind of lanes.
#pragma once

#include <cstdint>

#include "kernels/sum.hpp"

namespace muster::kernels {

template <class L>
struct ExactTerms {
  // For terms of which one may be large or not a number. Returns how many overflow.
  [[gnu::noinline]] static std::int64_t add_any(const float* terms, std::int64_t count, std::int64_t* multiples) {
    std::int64_t lost = 0;
    for (std::int64_t i = 0; i < count && i < 16; ++i) {
      if (terms[i] > -exact_limit && terms[i] < exact_limit)
        multiples[i] += exact_term(terms[i]);
      else
        ++lost;
    }
    return lost;
  }

  static void report(std::int64_t lost, std::int64_t* overflow) {
    if (lost != 0) __atomic_fetch_add(overflow, lost, __ATOMIC_RELAXED);
  }
};

// Up to sixteen exact sums side by side, on their way to memory.
template <class L>
class ExactPanel {
 public:
  explicit ExactPanel(std::int64_t count) : count_(count) {}

  [[gnu::always_inline]] void add(L terms) {
    if (L::larger_magnitude(L::broadcast(0.0F), terms).are_below(quick_exact_limit)) {
      terms.add_exactly(static_cast<std::int64_t*>(multiples_));
      return;
    }
    alignas(64) float any[16];
    terms.store(static_cast<float*>(any));
    lost_ += ExactTerms<L>::add_any(static_cast<const float*>(any), count_, static_cast<std::int64_t*>(multiples_));
  }

  void give(std::int64_t* target, std::int64_t* overflow) const {
    for (std::int64_t i = 0; i < count_ && i < 16; ++i) target[i] += multiples_[i];
    ExactTerms<L>::report(lost_, overflow);
  }

 private:
  std::int64_t count_;
  std::int64_t lost_ = 0;
  alignas(64) std::int64_t multiples_[16] = {};
};

}  // namespace muster::kernels
