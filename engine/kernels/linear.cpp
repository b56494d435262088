#include "kernels/linear.hpp"

#include <algorithm>
#include <vector>

#include "kernels/kernel_table.hpp"
#include "kernels/product.hpp"

namespace muster::kernels {
namespace {

// Rows that are packed at a time: bounds the workspace.
constexpr std::int64_t most_rows_at_once = 8 * most_block_rows;
// Elements whose packing is worth more than waking a thread.
constexpr std::int64_t worth_sharing = 16 * 1024;

// Floats of right sides that are prepared as a whole, and panels that a thread takes at a time for it.
constexpr std::int64_t most_prepared = 4 << 20;
constexpr std::int64_t panels_prepared_at_once = 8;

// The rows of all sequences, cut.
struct ChunkPlan {
  std::vector<InnerChunk> chunks;
  std::vector<std::int64_t> pieces;
};

// Whole sequences side by side while 256 rows hold them; one that is longer is cut every 256.
ChunkPlan plan_chunks(std::span<const std::int64_t> sequences) {
  ChunkPlan plan;
  std::int64_t first = 0;
  const auto pieces = [&] { return static_cast<std::int64_t>(plan.pieces.size()); };
  for (const std::int64_t rows : sequences) {
    if (rows > inner_block) {
      for (std::int64_t begin = 0; begin < rows; begin += inner_block) {
        const std::int64_t length = std::min(inner_block, rows - begin);
        plan.chunks.push_back({first + begin, length, pieces(), 1, begin == 0, begin + length == rows});
        plan.pieces.push_back(length);
      }
    } else if (rows > 0) {
      if (plan.chunks.empty() || !plan.chunks.back().is_whole() || plan.chunks.back().length + rows > inner_block)
        plan.chunks.push_back({.first = first, .first_piece = pieces()});
      plan.chunks.back().length += rows;
      plan.chunks.back().pieces += 1;
      plan.pieces.push_back(rows);
    }
    first += rows;
  }
  return plan;
}

// As many panels a unit as keep the left side in the cache, as few as give every thread several units.
std::int64_t panels_of_a_unit(std::int64_t rows, std::int64_t panels, int threads) {
  const std::int64_t blocks = Partition(rows, most_block_rows).parts();
  const std::int64_t wanted = panels * blocks / (std::int64_t{threads} * 4);
  if (wanted >= 8) return 8;
  return wanted >= 4 ? 4 : wanted >= 2 ? 2 : 1;
}

void multiply_rows(ThreadTeam& team, ProductJob job) {
  const KernelTable& kernels = team.kernels();
  const std::int64_t blocks = Partition(job.left.rows, most_block_rows).parts();
  const std::int64_t packing = blocks * ((job.left.inner + inner_block - 1) / inner_block);
  const bool share = job.left.rows * job.left.inner >= worth_sharing;
  team.split(packing, share ? 1 : packing,
             [&](std::int64_t begin, std::int64_t end) { kernels.pack_left(job.left, begin, end); });
  job.group = panels_of_a_unit(job.left.rows, job.panels(), team.size());
  team.split(blocks * job.groups(), 1,
             [&](std::int64_t begin, std::int64_t end) { kernels.multiply(job, begin, end); });
}

// Panels that several row blocks would each prepare are prepared once, where there is room for all of them.
bool prepares_right(const ProductJob& job) {
  return job.source != PanelSource::packed && job.left.rows > most_block_rows &&
         job.panels() * panel_columns * job.left.inner <= most_prepared;
}

void prepare_right(ThreadTeam& team, ProductJob& job, float* space) {
  const std::int64_t units = job.panels() * ((job.left.inner + inner_block - 1) / inner_block);
  team.split(units, panels_prepared_at_once,
             [&](std::int64_t begin, std::int64_t end) { team.kernels().pack_right(job, space, begin, end); });
  job.source = PanelSource::packed;
  job.right = reinterpret_cast<const std::byte*>(space);
  job.right_scalar = Scalar::float32;
  job.coded = nullptr;
  job.right_inner = job.left.inner;
}

void multiply(ThreadTeam& team, ProductJob whole) {
  const Partition parts(whole.left.rows, most_rows_at_once);
  if (parts.parts() == 0) return;
  const std::int64_t right = prepares_right(whole) ? whole.panels() * panel_columns * whole.left.inner : 0;
  float* space = team.workspace(static_cast<std::size_t>(right + parts.size(0) * whole.left.inner));
  if (right > 0) prepare_right(team, whole, space);
  for (std::int64_t i = 0; i < parts.parts(); ++i) {
    ProductJob job = whole;
    const std::int64_t row_elements = whole.left.by_columns ? 1 : whole.left.stride;
    job.left.source = static_cast<const std::byte*>(whole.left.source) +
                      static_cast<std::size_t>(parts.start(i) * row_elements) * bytes_per_element(whole.left.scalar);
    job.left.rows = parts.size(i);
    job.left.packed = space + right;
    const std::size_t down =
        static_cast<std::size_t>(parts.start(i) * whole.output_stride) * bytes_per_element(whole.output_scalar);
    job.output = whole.output + down;
    if (whole.added != nullptr) job.added = whole.added + down;
    multiply_rows(team, job);
  }
}

void multiply_exactly(ThreadTeam& team, const ExactProductJob& whole) {
  const Partition parts(whole.left.rows, most_rows_at_once);
  for (std::int64_t i = 0; i < parts.parts(); ++i) {
    ExactProductJob job = whole;
    job.left.source = static_cast<const std::byte*>(whole.left.source) +
                      static_cast<std::size_t>(parts.start(i)) * bytes_per_element(whole.left.scalar);
    job.left.rows = parts.size(i);
    job.left.packed = team.workspace(static_cast<std::size_t>(job.left.rows * job.left.inner));
    job.multiples = whole.multiples + parts.start(i) * whole.columns;
    const std::int64_t blocks = Partition(job.left.rows, most_block_rows).parts();
    team.split(blocks * static_cast<std::int64_t>(job.chunks.size()), 1,
               [&](std::int64_t begin, std::int64_t end) { team.kernels().pack_exact_left(job, begin, end); });
    job.group = std::min(most_exact_panels, panels_of_a_unit(job.left.rows, job.panels(), team.size()));
    team.split(blocks * job.groups(), 1,
               [&](std::int64_t begin, std::int64_t end) { team.kernels().multiply_exactly(job, begin, end); });
  }
}

void set_right(ProductJob& job, const PackedMatrix& weight) {
  job.right = weight.data();
  job.right_scalar = weight.scalar();
  job.right_inner = weight.inputs();
}
void set_right(ProductJob& job, const CodedMatrix& weight) { job.coded = &weight.panels(); }

template <class Matrix>
ProductJob forward(const Matrix& weight, const void* input, Scalar io, std::int64_t rows, const float* bias,
                   void* output, const float* added) {
  ProductJob job;
  job.left = {.source = input, .scalar = io, .stride = weight.inputs(), .rows = rows, .inner = weight.inputs()};
  job.source = PanelSource::packed;
  set_right(job, weight);
  job.columns = weight.outputs();
  job.bias = bias;
  job.added = reinterpret_cast<const std::byte*>(added);
  job.output = static_cast<std::byte*>(output);
  job.output_scalar = io;
  job.output_stride = weight.outputs();
  return job;
}

template <class Matrix>
ProductJob backward(const Matrix& weight, const void* output_gradient, Scalar io, std::int64_t rows,
                    void* input_gradient) {
  ProductJob job;
  job.left = {
      .source = output_gradient, .scalar = io, .stride = weight.outputs(), .rows = rows, .inner = weight.outputs()};
  job.source = PanelSource::transposed;
  set_right(job, weight);
  job.columns = weight.inputs();
  job.output = static_cast<std::byte*>(input_gradient);
  job.output_scalar = io;
  job.output_stride = weight.inputs();
  return job;
}

}  // namespace

void linear(ThreadTeam& team, const PackedMatrix& weight, const void* input, Scalar io, std::int64_t rows,
            const float* bias, void* output, const float* added) {
  multiply(team, forward(weight, input, io, rows, bias, output, added));
}

void linear(ThreadTeam& team, const CodedMatrix& weight, const void* input, Scalar io, std::int64_t rows,
            const float* bias, void* output, const float* added) {
  multiply(team, forward(weight, input, io, rows, bias, output, added));
}

void linear_input_gradient(ThreadTeam& team, const PackedMatrix& weight, const void* output_gradient, Scalar io,
                           std::int64_t rows, void* input_gradient) {
  multiply(team, backward(weight, output_gradient, io, rows, input_gradient));
}

void linear_input_gradient(ThreadTeam& team, const CodedMatrix& weight, const void* output_gradient, Scalar io,
                           std::int64_t rows, void* input_gradient) {
  multiply(team, backward(weight, output_gradient, io, rows, input_gradient));
}

void linear_weight_gradient(ThreadTeam& team, const void* output_gradient, const void* input, Scalar io,
                            std::span<const std::int64_t> sequence_rows, std::int64_t outputs, std::int64_t inputs,
                            const Sum& sum) {
  LeftSide left{.source = output_gradient, .scalar = io, .by_columns = true, .stride = outputs, .rows = outputs};
  for (const std::int64_t rows : sequence_rows) left.inner += rows;
  if (left.inner == 0) return;
  if (sum.multiples != nullptr) {
    const ChunkPlan plan = plan_chunks(sequence_rows);
    return multiply_exactly(team, {.left = left,
                                   .chunks = plan.chunks,
                                   .pieces = plan.pieces.data(),
                                   .right = input,
                                   .right_scalar = io,
                                   .columns = inputs,
                                   .multiples = sum.multiples,
                                   .overflow = sum.overflow});
  }
  ProductJob job;
  job.left = left;
  job.source = PanelSource::rows;
  job.right = static_cast<const std::byte*>(input);
  job.right_scalar = io;
  job.right_inner = inputs;
  job.columns = inputs;
  with_values(sum, [&](auto* values) { job.output = reinterpret_cast<std::byte*>(values); });
  job.output_scalar = sum.rounded != nullptr ? Scalar::bfloat16 : Scalar::float32;
  job.output_stride = inputs;
  job.added = job.output;
  multiply(team, job);
}

}  // namespace muster::kernels
