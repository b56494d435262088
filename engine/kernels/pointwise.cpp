#include "kernels/pointwise.hpp"

#include "kernels/activation.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/pointwise_job.hpp"

namespace muster::kernels {
namespace {

constexpr std::int64_t blocks_at_once = 16;

void apply(ThreadTeam& team, const PointwiseJob& job) {
  team.split(job.rows * job.row_blocks(), blocks_at_once,
             [&](std::int64_t begin, std::int64_t end) { team.kernels().apply_pointwise(job, begin, end); });
}

PointwiseJob gated_job(Activation activation, const Gated& gated, Scalar io) {
  return {.activation = activation,
          .first = gated.gate,
          .second = gated.up,
          .io = io,
          .rows = gated.rows,
          .columns = gated.columns,
          .stride = gated.stride};
}

}  // namespace

void add(ThreadTeam& team, const void* first, const void* second, Scalar io, std::int64_t count, void* output) {
  apply(team, {.operation = PointwiseOperation::add,
               .first = first,
               .second = second,
               .output = output,
               .io = io,
               .columns = count});
}

void convert(ThreadTeam& team, const void* input, Scalar from, std::int64_t count, void* output, Scalar to) {
  apply(team, {.operation = PointwiseOperation::convert,
               .first = input,
               .output = output,
               .io = from,
               .to = to,
               .columns = count});
}

void activate(ThreadTeam& team, Activation activation, const void* input, Scalar io, std::int64_t count, void* output) {
  apply(team, {.operation = PointwiseOperation::activate,
               .activation = activation,
               .first = input,
               .output = output,
               .io = io,
               .columns = count});
}

void activate_gradient(ThreadTeam& team, Activation activation, const void* input, const void* output_gradient,
                       Scalar io, std::int64_t count, void* input_gradient) {
  apply(team, {.operation = PointwiseOperation::activate_back,
               .activation = activation,
               .first = input,
               .gradient = output_gradient,
               .output = input_gradient,
               .io = io,
               .columns = count});
}

void gated_activation(ThreadTeam& team, Activation activation, const Gated& gated, Scalar io, void* output) {
  PointwiseJob job = gated_job(activation, gated, io);
  job.operation = PointwiseOperation::gate;
  job.output = output;
  apply(team, job);
}

void gated_activation_gradient(ThreadTeam& team, Activation activation, const Gated& gated, const void* output_gradient,
                               Scalar io, void* gate_gradient, void* up_gradient) {
  PointwiseJob job = gated_job(activation, gated, io);
  job.operation = PointwiseOperation::gate_back;
  job.gradient = output_gradient;
  job.output = gate_gradient;
  job.second_output = up_gradient;
  apply(team, job);
}

}  // namespace muster::kernels
