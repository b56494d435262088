// Sums over rows for one kind of lanes.
#pragma once

#include "kernels/exact_kernels.hpp"
#include "kernels/row_access.hpp"
#include "kernels/row_jobs.hpp"

namespace muster::kernels {

template <class L>
struct RowSumKernels {
  template <class Element>
  static L column_factor(const ColumnSumJob& job, std::int64_t row, std::int64_t column) {
    const Element* input = static_cast<const Element*>(job.inputs) + row * job.columns + column;
    const L mean = L::broadcast(job.means == nullptr ? 0.0F : job.means[row]);
    const L value = (load_some<L>(input, job.columns - column) - mean) * L::broadcast(job.inverses[row]);
    return job.round_inputs ? rounded<L, Element>(value) : value;
  }

  template <class Element>
  static L value_at(const ColumnSumJob& job, std::int64_t row, std::int64_t column) {
    return load_some<L>(static_cast<const Element*>(job.values) + row * job.columns + column, job.columns - column);
  }

  template <class Element>
  static void sum_panel(const ColumnSumJob& job, std::int64_t column) {
    constexpr std::int64_t chain_rows = 256;
    const std::int64_t left = job.columns - column;
    L total = L::broadcast(0.0F);
    for (std::int64_t first = 0; first < job.rows; first += chain_rows) {
      L sum = L::broadcast(0.0F);
      for (std::int64_t row = first; row < job.rows && row < first + chain_rows; ++row) {
        const L value = value_at<Element>(job, row, column);
        sum = job.inputs == nullptr ? sum + value : L::fma(value, column_factor<Element>(job, row, column), sum);
      }
      total = total + sum;
    }
    with_values(job.sum,
                [&](auto* values) { store_some(load_some<L>(values + column, left) + total, values + column, left); });
  }

  template <class Element>
  static void sum_panel_exactly(const ColumnSumJob& job, std::int64_t column) {
    ExactPanel<L> panel(job.columns - column);
    for (std::int64_t row = 0; row < job.rows; ++row) {
      const L value = value_at<Element>(job, row, column);
      panel.add(job.inputs == nullptr ? value : value * column_factor<Element>(job, row, column));
    }
    panel.give(job.sum.multiples + column, job.sum.overflow);
  }

  // units: panels of sixteen columns
  static void sum_columns(const ColumnSumJob& job, std::int64_t begin, std::int64_t end) {
    with_element(job.io, [&](auto element) {
      using Element = decltype(element);
      for (std::int64_t panel = begin; panel < end; ++panel) {
        if (job.sum.multiples != nullptr)
          sum_panel_exactly<Element>(job, panel * 16);
        else
          sum_panel<Element>(job, panel * 16);
      }
    });
  }

  template <class Element>
  static void scatter_row(const RowScatterJob& job, std::int64_t row, std::int64_t begin, std::int64_t end) {
    const Element* values = static_cast<const Element*>(job.values) + row * job.columns;
    const std::int64_t target = job.indices[row] * job.columns;
    for (std::int64_t column = begin; column < end; column += 16) {
      const std::int64_t left = job.columns - column;
      const L value = load_some<L>(values + column, left);
      if (job.sum.values != nullptr) {
        float* place = job.sum.values + target + column;
        store_some(load_some<L>(place, left) + value, place, left);
      } else if (left >= 16 && L::larger_magnitude(L::broadcast(0.0F), value).are_below(quick_exact_limit)) {
        value.add_exactly(job.sum.multiples + target + column);
      } else {
        ExactPanel<L> panel(left);
        panel.add(value);
        panel.give(job.sum.multiples + target + column, job.sum.overflow);
      }
    }
  }

  // The rows of one index: those of job.order from first to last.
  template <class Element>
  static void scatter_term(const RowScatterJob& job, std::int64_t first, std::int64_t last, std::int64_t begin,
                           std::int64_t end) {
    BFloat16* target = job.sum.rounded + job.indices[job.order[first]] * job.columns;
    for (std::int64_t column = begin; column < end; column += 16) {
      const std::int64_t left = job.columns - column;
      L term = L::broadcast(0.0F);
      for (std::int64_t i = first; i < last; ++i)
        term = term + load_some<L>(static_cast<const Element*>(job.values) + job.order[i] * job.columns + column, left);
      store_some(load_some<L>(target + column, left) + term, target + column, left);
    }
  }

  template <class Element>
  static void scatter_terms(const RowScatterJob& job, std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = 0, last = 0; first < job.rows; first = last) {
      const std::int64_t index = job.indices[job.order[first]];
      while (last < job.rows && job.indices[job.order[last]] == index) ++last;
      scatter_term<Element>(job, first, last, begin, end);
    }
  }

  // units: panels of sixteen columns
  static void scatter_rows(const RowScatterJob& job, std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * 16, last = end * 16 < job.columns ? end * 16 : job.columns;
    with_element(job.io, [&](auto element) {
      using Element = decltype(element);
      if (job.sum.rounded != nullptr) return scatter_terms<Element>(job, first, last);
      for (std::int64_t row = 0; row < job.rows; ++row) scatter_row<Element>(job, row, first, last);
    });
  }
};

}  // namespace muster::kernels
