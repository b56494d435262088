// Row-major to panels and back, for one kind of lanes.
#pragma once

#include <algorithm>

#include "kernels/packing.hpp"
#include "kernels/product.hpp"
#include "kernels/row_access.hpp"

namespace muster::kernels {

template <class L>
struct PackingKernels {
  // The rows of one panel that the job has: panel rows first … last, which are plain rows from plain_row on.
  struct Share {
    std::int64_t first, last, plain_row;
  };

  static Share share_of(const PackingJob& job, std::int64_t panel) {
    const std::int64_t panel_row = panel * panel_columns;
    const std::int64_t first = std::max<std::int64_t>(0, job.first_row - panel_row);
    const std::int64_t last = std::min(panel_columns, job.first_row + job.rows - panel_row);
    return {first, last, panel_row + first - job.first_row};
  }

  template <class Panel>
  static void store_block(const float* block, Panel* panel, std::int64_t inputs) {
    for (std::int64_t k = 0; k < inputs; ++k) L::load(block + k * 16).store(panel + k * 16);
  }

  template <class Panel, class Plain>
  static void pack_whole_panel(const Plain* plain, std::int64_t stride, std::int64_t inputs, Panel* panel) {
    std::int64_t k = 0;
    alignas(64) float block[256];
    for (; k + 16 <= inputs; k += 16) {
      L::transpose(plain + k, stride, static_cast<float*>(block));
      store_block(static_cast<const float*>(block), panel + k * 16, 16);
    }
    for (; k < inputs; ++k) {
      for (std::int64_t r = 0; r < 16; ++r) narrow(widen(plain[r * stride + k]), panel[k * 16 + r]);
    }
  }

  template <class Panel, class Plain>
  static void pack_panel(const PackingJob& job, std::int64_t number) {
    auto* panel = static_cast<Panel*>(job.panels) + number * job.inputs * panel_columns;
    const auto* plain = static_cast<const Plain*>(job.plain);
    const Share share = share_of(job, number);
    // Rows of the last panel that the matrix lacks are zero; the last row brings them along.
    const bool ends = number * panel_columns + share.last == job.outputs;
    const std::int64_t last = ends ? panel_columns : share.last;
    if (!job.by_columns && share.first == 0 && share.last == panel_columns) {
      pack_whole_panel(plain + share.plain_row * job.stride, job.stride, job.inputs, panel);
      return;
    }
    const std::int64_t row_step = job.by_columns ? 1 : job.stride;
    const std::int64_t input_step = job.by_columns ? job.stride : 1;
    for (std::int64_t k = 0; k < job.inputs; ++k) {
      const Plain* source = plain + share.plain_row * row_step + k * input_step;
      for (std::int64_t r = share.first; r < last; ++r) {
        narrow(r < share.last ? widen(source[(r - share.first) * row_step]) : 0.0F, panel[k * panel_columns + r]);
      }
    }
  }

  template <class Panel, class Plain>
  static void unpack_panel(const PackingJob& job, std::int64_t number) {
    const auto* panel = static_cast<const Panel*>(job.panels) + number * job.inputs * panel_columns;
    auto* plain = static_cast<Plain*>(job.plain);
    const Share share = share_of(job, number);
    for (std::int64_t k = 0; k < job.inputs; ++k) {
      for (std::int64_t r = share.first; r < share.last; ++r) {
        narrow(widen(panel[k * panel_columns + r]), plain[(share.plain_row + r - share.first) * job.stride + k]);
      }
    }
  }

  // units: panels
  static void pack_panels(const PackingJob& job, std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      with_element(job.panel_scalar, [&](auto to) {
        with_element(job.plain_scalar, [&](auto from) { pack_panel<decltype(to), decltype(from)>(job, panel); });
      });
    }
  }
  static void unpack_panels(const PackingJob& job, std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      with_element(job.panel_scalar, [&](auto from) {
        with_element(job.plain_scalar, [&](auto to) { unpack_panel<decltype(from), decltype(to)>(job, panel); });
      });
    }
  }
};

}  // namespace muster::kernels
