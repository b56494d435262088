// Steps of an optimizer over flat arrays, the operations of engine/kernels one by one; and sums of squares.
#include "cuda/dispatch.cuh"
#include "cuda/learning_kernels.hpp"
#include "cuda/pack.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {
namespace {

constexpr int threads = 256;
constexpr int join_threads = 1024;
constexpr int squares_block = 256;
constexpr int squares_lanes = 16;

template <class Rule>
__device__ float gradient_of(float value, const Rule& rule) {
  return value * rule.gradient_scale;
}
template <class Rule>
__device__ float gradient_of(std::int64_t multiples, const Rule& rule) {
  return static_cast<float>(static_cast<double>(multiples) * rule.multiple);
}

template <class Value, int count>
__global__ void __launch_bounds__(threads) adamw_step(AdamW rule, const Value* gradients, std::int64_t packs,
                                                      float* parameters, float* firsts, float* seconds) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index >= packs) return;
  using Floats = Pack<float, count>;
  const auto gradient_pack = reinterpret_cast<const Pack<Value, count>*>(gradients)[index];
  Floats parameter_pack = reinterpret_cast<Floats*>(parameters)[index];
  Floats first_pack = reinterpret_cast<Floats*>(firsts)[index];
  Floats second_pack = reinterpret_cast<Floats*>(seconds)[index];
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const float gradient = gradient_of(gradient_pack.values[i], rule);
    const float before = first_pack.values[i];
    const float first = __fmaf_rn(gradient - before, rule.first_share, before);
    const float second = __fmaf_rn(gradient * rule.second_share, gradient, second_pack.values[i] * rule.beta2);
    const float divisor = __fdiv_rn(__fsqrt_rn(second), rule.second_root) + rule.epsilon;
    const float kept = parameter_pack.values[i] * rule.kept;
    first_pack.values[i] = first;
    second_pack.values[i] = second;
    parameter_pack.values[i] = __fmaf_rn(__fdiv_rn(first, divisor), -rule.step_size, kept);
  }
  reinterpret_cast<Floats*>(parameters)[index] = parameter_pack;
  reinterpret_cast<Floats*>(firsts)[index] = first_pack;
  reinterpret_cast<Floats*>(seconds)[index] = second_pack;
}

template <class Value>
__global__ void __launch_bounds__(threads)
    sgd_step(Sgd rule, const Value* gradients, std::int64_t count, float* parameters, float* momentum) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index >= count) return;
  const float parameter = parameters[index];
  float direction = __fmaf_rn(parameter, rule.decay, gradient_of(gradients[index], rule));
  if (momentum != nullptr) {
    if (!rule.first) direction = __fmaf_rn(momentum[index], rule.momentum, direction);
    momentum[index] = direction;
  }
  parameters[index] = __fmaf_rn(direction, -rule.rate, parameter);
}

__device__ double number_of(float value) { return static_cast<double>(value); }
__device__ double number_of(std::int64_t multiples) { return static_cast<double>(multiples) * 0x1p-44; }

// Sixteen threads for each 256 values.
template <class Value>
__global__ void __launch_bounds__(threads) sum_squares(const Value* values, std::int64_t count, double* blocks) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  const std::int64_t block = index / squares_lanes, lane = index % squares_lanes;
  double sum = 0;
  for (int i = 0; i < squares_block / squares_lanes; ++i) {
    const std::int64_t place = block * squares_block + i * squares_lanes + lane;
    if (place >= count) break;
    const double number = number_of(values[place]);
    sum += number * number;
  }
  for (int offset = squares_lanes / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(whole_warp, sum, offset);
  if (lane == 0 && block * squares_block < count) blocks[block] = sum;
}

__global__ void __launch_bounds__(join_threads) add_up(const double* blocks, std::int64_t count, double* result) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += join_threads) sum += blocks[i];
  sum = block_sum<join_threads>(sum);
  if (threadIdx.x == 0) *result = sum;
}

unsigned blocks_for(std::int64_t count) { return static_cast<unsigned>((count + threads - 1) / threads); }

template <class Value>
void launch_adamw(cudaStream_t stream, const AdamW& rule, const Value* gradients, std::int64_t count, float* parameter,
                  float* first, float* second) {
  constexpr int at_once = 4;
  const bool packed = is_aligned(gradients, at_once * sizeof(Value)) && is_aligned(parameter) && is_aligned(first) &&
                      is_aligned(second);
  const std::int64_t packs = packed ? count / at_once : 0, done = packs * at_once;
  if (packs > 0)
    adamw_step<Value, at_once>
        <<<blocks_for(packs), threads, 0, stream>>>(rule, gradients, packs, parameter, first, second);
  if (done < count)
    adamw_step<Value, 1><<<blocks_for(count - done), threads, 0, stream>>>(
        rule, gradients + done, count - done, parameter + done, first + done, second + done);
}

}  // namespace

LaunchError adamw(Stream stream, const AdamW& rule, const Sum& gradient, std::int64_t count, float* parameter,
                  float* first_moment, float* second_moment) {
  if (count == 0) return "";
  return launched([&] {
    const auto on = static_cast<cudaStream_t>(stream);
    if (gradient.multiples != nullptr)
      launch_adamw(on, rule, gradient.multiples, count, parameter, first_moment, second_moment);
    else
      launch_adamw(on, rule, gradient.values, count, parameter, first_moment, second_moment);
  });
}

LaunchError sgd(Stream stream, const Sgd& rule, const Sum& gradient, std::int64_t count, float* parameter,
                float* momentum) {
  if (count == 0) return "";
  return launched([&] {
    const auto on = static_cast<cudaStream_t>(stream);
    if (gradient.multiples != nullptr)
      sgd_step<<<blocks_for(count), threads, 0, on>>>(rule, gradient.multiples, count, parameter, momentum);
    else
      sgd_step<<<blocks_for(count), threads, 0, on>>>(rule, gradient.values, count, parameter, momentum);
  });
}

std::int64_t square_block_count(std::int64_t count) { return (count + squares_block - 1) / squares_block; }

LaunchError square_blocks(Stream stream, const Sum& sum, std::int64_t count, double* blocks) {
  if (count == 0) return "";
  return launched([&] {
    const auto on = static_cast<cudaStream_t>(stream);
    const unsigned grid = blocks_for(square_block_count(count) * squares_lanes);
    if (sum.multiples != nullptr)
      sum_squares<<<grid, threads, 0, on>>>(sum.multiples, count, blocks);
    else
      sum_squares<<<grid, threads, 0, on>>>(sum.values, count, blocks);
  });
}

LaunchError join_blocks(Stream stream, const double* blocks, std::int64_t count, double* result) {
  return launched([&] {
    add_up<<<1, join_threads, 0, static_cast<cudaStream_t>(stream)>>>(blocks, count, result);
  });
}

}  // namespace muster::cuda
