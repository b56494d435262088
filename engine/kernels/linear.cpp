#include "kernels/linear.hpp"

#include <algorithm>

#include "kernels/kernel_table.hpp"
#include "kernels/product.hpp"

namespace muster::kernels {
namespace {

// Rows that are packed at a time: bounds the workspace.
constexpr std::int64_t most_rows_at_once = 8 * most_block_rows;
// Elements whose packing is worth more than waking a thread.
constexpr std::int64_t worth_sharing = 16 * 1024;

// As many panels a unit as keep the left side in the cache, as few as give every thread several units.
std::int64_t panels_of_a_unit(const ProductJob& job, int threads) {
  const std::int64_t blocks = Partition(job.left.rows, most_block_rows).parts();
  const std::int64_t wanted = job.panels() * blocks / (std::int64_t{threads} * 4);
  if (wanted >= 8) return 8;
  return wanted >= 4 ? 4 : wanted >= 2 ? 2 : 1;
}

void multiply_rows(ThreadTeam& team, ProductJob job) {
  const KernelTable& kernels = team.kernels();
  job.left.packed = team.workspace(static_cast<std::size_t>(job.left.rows * job.left.inner));
  const std::int64_t blocks = Partition(job.left.rows, most_block_rows).parts();
  const std::int64_t packing = blocks * ((job.left.inner + inner_block - 1) / inner_block);
  const bool share = job.left.rows * job.left.inner >= worth_sharing;
  team.split(packing, share ? 1 : packing,
             [&](std::int64_t begin, std::int64_t end) { kernels.pack_left(job.left, begin, end); });
  job.group = panels_of_a_unit(job, team.size());
  team.split(blocks * job.groups(), 1,
             [&](std::int64_t begin, std::int64_t end) { kernels.multiply(job, begin, end); });
}

void multiply(ThreadTeam& team, const ProductJob& whole) {
  const Partition parts(whole.left.rows, most_rows_at_once);
  for (std::int64_t i = 0; i < parts.parts(); ++i) {
    ProductJob job = whole;
    const std::int64_t row_elements = whole.left.by_columns ? 1 : whole.left.stride;
    job.left.source = static_cast<const std::byte*>(whole.left.source) +
                      static_cast<std::size_t>(parts.start(i) * row_elements) * bytes_per_element(whole.left.scalar);
    job.left.rows = parts.size(i);
    job.output = whole.output + static_cast<std::size_t>(parts.start(i) * whole.output_stride) *
                                    bytes_per_element(whole.output_scalar);
    multiply_rows(team, job);
  }
}

}  // namespace

void linear(ThreadTeam& team, const PackedMatrix& weight, const void* input, Scalar io, std::int64_t rows,
            const float* bias, void* output) {
  ProductJob job;
  job.left = {.source = input, .scalar = io, .stride = weight.inputs(), .rows = rows, .inner = weight.inputs()};
  job.source = PanelSource::packed;
  job.right = weight.data();
  job.right_scalar = weight.scalar();
  job.right_inner = weight.inputs();
  job.columns = weight.outputs();
  job.bias = bias;
  job.output = static_cast<std::byte*>(output);
  job.output_scalar = io;
  job.output_stride = weight.outputs();
  multiply(team, job);
}

void linear_input_gradient(ThreadTeam& team, const PackedMatrix& weight, const void* output_gradient, Scalar io,
                           std::int64_t rows, void* input_gradient) {
  ProductJob job;
  job.left = {
      .source = output_gradient, .scalar = io, .stride = weight.outputs(), .rows = rows, .inner = weight.outputs()};
  job.source = PanelSource::transposed;
  job.right = weight.data();
  job.right_scalar = weight.scalar();
  job.right_inner = weight.inputs();
  job.columns = weight.inputs();
  job.output = static_cast<std::byte*>(input_gradient);
  job.output_scalar = io;
  job.output_stride = weight.inputs();
  multiply(team, job);
}

void linear_weight_gradient(ThreadTeam& team, const void* output_gradient, const void* input, Scalar io,
                            std::int64_t rows, std::int64_t outputs, std::int64_t inputs, float* weight_gradient,
                            Accumulate mode) {
  ProductJob job;
  job.left = {
      .source = output_gradient, .scalar = io, .by_columns = true, .stride = outputs, .rows = outputs, .inner = rows};
  job.source = PanelSource::rows;
  job.right = static_cast<const std::byte*>(input);
  job.right_scalar = io;
  job.right_inner = inputs;
  job.columns = inputs;
  job.output = reinterpret_cast<std::byte*>(weight_gradient);
  job.output_stride = inputs;
  job.accumulate = mode == Accumulate::add;
  multiply(team, job);
}

void linear_bias_gradient(ThreadTeam& team, const void* output_gradient, Scalar io, std::int64_t rows,
                          std::int64_t outputs, float* bias_gradient, Accumulate mode) {
  const ColumnSumJob job{.values = output_gradient,
                         .io = io,
                         .rows = rows,
                         .columns = outputs,
                         .output = bias_gradient,
                         .accumulate = mode == Accumulate::add};
  team.split((outputs + panel_columns - 1) / panel_columns, 4,
             [&](std::int64_t begin, std::int64_t end) { team.kernels().sum_columns(job, begin, end); });
}

}  // namespace muster::kernels
