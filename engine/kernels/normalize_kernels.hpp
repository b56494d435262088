// Normalisation for one kind of lanes.
#pragma once

#include "kernels/row_access.hpp"
#include "kernels/row_jobs.hpp"

namespace muster::kernels {

template <class L>
struct NormalizeKernels {
  struct Moments {
    float mean, inverse;
  };

  // value where a row still has elements, zero beyond its end
  [[gnu::always_inline]] static L kept(L value, std::int64_t left) {
    if (left >= 16) return value;
    return L::where_less(L::indices(), L::broadcast(static_cast<float>(left)), value, L::broadcast(0.0F));
  }

  template <class Element>
  static Moments moments(const Element* row, const NormalizeJob& job) {
    const std::int64_t columns = job.normalization.columns;
    const float share = static_cast<float>(columns);
    float mean = 0.0F;
    if (job.centered) {
      L sum = L::broadcast(0.0F);
      for (std::int64_t i = 0; i < columns; i += 16) sum = sum + load_some<L>(row + i, columns - i);
      mean = sum.sum() / share;
    }
    L squares = L::broadcast(0.0F);
    for (std::int64_t i = 0; i < columns; i += 16) {
      const L distance = kept(load_some<L>(row + i, columns - i) - L::broadcast(mean), columns - i);
      squares = L::fma(distance, distance, squares);
    }
    return {mean, 1.0F / __builtin_sqrtf(squares.sum() / share + job.normalization.epsilon)};
  }

  template <class Element>
  static L normalized(const NormalizeJob& job, L value, const Moments& moments) {
    const L result = (value - L::broadcast(moments.mean)) * L::broadcast(moments.inverse);
    return job.centered ? result : rounded<L, Element>(result);
  }

  template <class Element>
  static void normalize_row(const NormalizeJob& job, std::int64_t row) {
    const Normalization& n = job.normalization;
    const Element* input = static_cast<const Element*>(n.input) + row * n.columns;
    Element* output = static_cast<Element*>(job.output) + row * n.columns;
    const Moments row_moments = moments(input, job);
    for (std::int64_t i = 0; i < n.columns; i += 16) {
      const std::int64_t left = n.columns - i;
      const L value = normalized<Element>(job, load_some<L>(input + i, left), row_moments);
      const L weight = load_some<L>(n.weight + i, left);
      const L result = n.bias == nullptr ? value * weight : L::fma(value, weight, load_some<L>(n.bias + i, left));
      store_some(result, output + i, left);
    }
  }

  // With y the normalised row and g = gradient · weight: inverse · (g - mean(g) - y · mean(g y)); the RMS norm lacks
  // mean(g).
  template <class Element>
  static void normalize_row_back(const NormalizeJob& job, std::int64_t row) {
    const Normalization& n = job.normalization;
    const Element* input = static_cast<const Element*>(n.input) + row * n.columns;
    const Element* gradient = static_cast<const Element*>(job.output_gradient) + row * n.columns;
    const Element* added = n.added == nullptr ? nullptr : static_cast<const Element*>(n.added) + row * n.columns;
    Element* output = static_cast<Element*>(job.output) + row * n.columns;
    const Moments row_moments = moments(input, job);
    job.means[row] = row_moments.mean;
    job.inverses[row] = row_moments.inverse;
    const L mean = L::broadcast(row_moments.mean);
    const L inverse = L::broadcast(row_moments.inverse);
    L sum = L::broadcast(0.0F);
    L products = L::broadcast(0.0F);
    for (std::int64_t i = 0; i < n.columns; i += 16) {
      const std::int64_t left = n.columns - i;
      const L weighted = load_some<L>(gradient + i, left) * load_some<L>(n.weight + i, left);
      sum = sum + weighted;
      products = L::fma(weighted, (load_some<L>(input + i, left) - mean) * inverse, products);
    }
    const float share = static_cast<float>(n.columns);
    const L sum_mean = L::broadcast(job.centered ? sum.sum() / share : 0.0F);
    const L product_mean = L::broadcast(0.0F - products.sum() / share);
    for (std::int64_t i = 0; i < n.columns; i += 16) {
      const std::int64_t left = n.columns - i;
      const L weighted = load_some<L>(gradient + i, left) * load_some<L>(n.weight + i, left);
      const L value = (load_some<L>(input + i, left) - mean) * inverse;
      L result = inverse * L::fma(value, product_mean, weighted - sum_mean);
      if (added != nullptr) result = load_some<L>(added + i, left) + rounded<L, Element>(result);
      store_some(result, output + i, left);
    }
  }

  // units: rows
  static void normalize(const NormalizeJob& job, std::int64_t begin, std::int64_t end) {
    with_element(job.normalization.io, [&](auto element) {
      for (std::int64_t row = begin; row < end; ++row) normalize_row<decltype(element)>(job, row);
    });
  }
  static void normalize_back(const NormalizeJob& job, std::int64_t begin, std::int64_t end) {
    with_element(job.normalization.io, [&](auto element) {
      for (std::int64_t row = begin; row < end; ++row) normalize_row_back<decltype(element)>(job, row);
    });
  }
};

}  // namespace muster::kernels
