#include "kernels/packed_matrix.hpp"

#include "kernels/kernel_table.hpp"
#include "kernels/product.hpp"

namespace muster::kernels {
namespace {

constexpr std::int64_t panels_at_once = 2;

void pack(ThreadTeam& team, const PackingJob& job) {
  const std::int64_t first = job.first_row / panel_columns;
  const std::int64_t last = (job.first_row + job.rows + panel_columns - 1) / panel_columns;
  team.split(last - first, panels_at_once, [&](std::int64_t begin, std::int64_t end) {
    team.kernels().pack_panels(job, first + begin, first + end);
  });
}

}  // namespace

std::size_t PackedMatrix::bytes_needed(std::int64_t outputs, std::int64_t inputs, Scalar scalar) {
  const std::int64_t panels = (outputs + panel_columns - 1) / panel_columns;
  return static_cast<std::size_t>(panels * panel_columns * inputs) * bytes_per_element(scalar);
}

void PackedMatrix::pack_rows(ThreadTeam& team, std::int64_t first_row, std::int64_t rows, const void* row_major,
                             Scalar from) {
  pack(team, {.panels = data_,
              .panel_scalar = scalar_,
              .outputs = outputs_,
              .inputs = inputs_,
              .plain = const_cast<void*>(row_major),
              .plain_scalar = from,
              .stride = inputs_,
              .first_row = first_row,
              .rows = rows});
}

void PackedMatrix::pack_columns(ThreadTeam& team, std::int64_t first_row, std::int64_t rows, const void* column_major,
                                std::int64_t row_stride, Scalar from) {
  pack(team, {.panels = data_,
              .panel_scalar = scalar_,
              .outputs = outputs_,
              .inputs = inputs_,
              .plain = const_cast<void*>(column_major),
              .plain_scalar = from,
              .by_columns = true,
              .stride = row_stride,
              .first_row = first_row,
              .rows = rows});
}

void PackedMatrix::copy_row(std::int64_t row, void* out, Scalar to) const {
  with_element(scalar_, [&](auto from) {
    using Panel = decltype(from);
    const auto* source =
        reinterpret_cast<const Panel*>(data_) + row / panel_columns * inputs_ * panel_columns + row % panel_columns;
    with_element(to, [&](auto element) {
      auto* target = static_cast<decltype(element)*>(out);
      for (std::int64_t k = 0; k < inputs_; ++k) narrow(widen(source[k * panel_columns]), target[k]);
    });
  });
}

void PackedMatrix::unpack(ThreadTeam& team, void* row_major, Scalar to) const {
  const PackingJob job{.panels = data_,
                       .panel_scalar = scalar_,
                       .outputs = outputs_,
                       .inputs = inputs_,
                       .plain = row_major,
                       .plain_scalar = to,
                       .stride = inputs_,
                       .rows = outputs_};
  team.split((outputs_ + panel_columns - 1) / panel_columns, panels_at_once,
             [&](std::int64_t begin, std::int64_t end) { team.kernels().unpack_panels(job, begin, end); });
}

}  // namespace muster::kernels
