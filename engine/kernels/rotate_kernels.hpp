// Rotation for one kind of lanes.
#pragma once

#include "kernels/row_access.hpp"
#include "kernels/row_jobs.hpp"

namespace muster::kernels {

template <class L, class Element>
void rotate_head(const RotateJob& job, std::int64_t row, const Element* from, Element* head) {
  const std::int64_t half = job.rotation.head_size / 2;
  for (std::int64_t i = 0; i < half; i += 16) {
    const std::int64_t left = half - i;
    const L cosine = rounded<L, Element>(load_some<L>(job.rotation.cosines + row * half + i, left));
    const L sine =
        rounded<L, Element>(load_some<L>(job.rotation.sines + row * half + i, left)) * L::broadcast(job.direction);
    const L first = load_some<L>(from + i, left);
    const L second = load_some<L>(from + half + i, left);
    store_some(L::fma(first, cosine, L::broadcast(0.0F) - second * sine), head + i, left);
    store_some(L::fma(second, cosine, first * sine), head + half + i, left);
  }
}

// units: rows
template <class L>
void rotate_rows(const RotateJob& job, std::int64_t begin, std::int64_t end) {
  with_element(job.rotation.io, [&](auto element) {
    using Element = decltype(element);
    for (std::int64_t row = begin; row < end; ++row) {
      Element* heads = static_cast<Element*>(job.rotation.values) + row * job.rotation.row_stride;
      const Element* from = job.rotation.source == nullptr
                                ? heads
                                : static_cast<const Element*>(job.rotation.source) + row * job.rotation.source_stride;
      const std::int64_t width = job.rotation.heads * job.rotation.head_size;
      if (job.rotation.cosines == nullptr) {
        for (std::int64_t i = 0; i < width; ++i) heads[i] = from[i];
        continue;
      }
      for (std::int64_t h = 0; h < width; h += job.rotation.head_size) rotate_head<L>(job, row, from + h, heads + h);
    }
  });
}

}  // namespace muster::kernels
