// Steps of an optimizer over flat arrays, the operations of engine/kernels one by one; and sums of squares.
#include <algorithm>
#include <type_traits>

#include "cuda/dispatch.cuh"
#include "cuda/training_kernels.hpp"
#include "cuda/pack.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {
namespace {

constexpr int threads = 256;
constexpr int join_threads = 1024;
constexpr int squares_block = 256;
constexpr int coded_moment_block = 256;
constexpr std::int64_t most_coded_grid = 4096;  // each of its blocks brings the maps near, for all that it steps
constexpr int squares_lanes = 16;

using Narrow = __nv_bfloat16;

template <class Value, class Rule>
__device__ float gradient_of(Value value, const Rule& rule) {
  return widen(value) * rule.gradient_scale;
}
template <class Rule>
__device__ float gradient_of(std::int64_t multiples, const Rule& rule) {
  return static_cast<float>(static_cast<double>(multiples) * rule.multiple);
}

// State: how parameters and moments are stored; rounded once, when they are.
template <class Value, class State, int count>
__global__ void __launch_bounds__(threads) adamw_step(AdamW rule, const Value* gradients, std::int64_t packs,
                                                      State* parameters, State* firsts, State* seconds) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index >= packs) return;
  using States = Pack<State, count>;
  const auto gradient_pack = reinterpret_cast<const Pack<Value, count>*>(gradients)[index];
  States parameter_pack = reinterpret_cast<States*>(parameters)[index];
  States first_pack = reinterpret_cast<States*>(firsts)[index];
  States second_pack = reinterpret_cast<States*>(seconds)[index];
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const float gradient = gradient_of(gradient_pack.values[i], rule);
    const float before = widen(first_pack.values[i]);
    const float first = __fmaf_rn(gradient - before, rule.first_share, before);
    const float second = __fmaf_rn(gradient * rule.second_share, gradient, widen(second_pack.values[i]) * rule.beta2);
    const float divisor = __fdiv_rn(__fsqrt_rn(second), rule.second_root) + rule.epsilon;
    const float kept = widen(parameter_pack.values[i]) * rule.kept;
    first_pack.values[i] = narrow<State>(first);
    second_pack.values[i] = narrow<State>(second);
    parameter_pack.values[i] = narrow<State>(__fmaf_rn(__fdiv_rn(first, divisor), -rule.step_size, kept));
  }
  reinterpret_cast<States*>(parameters)[index] = parameter_pack;
  reinterpret_cast<States*>(firsts)[index] = first_pack;
  reinterpret_cast<States*>(seconds)[index] = second_pack;
}

// A map of codes and the middles between its values, next to the threads that look numbers up.
struct NearMap {
  float values[coded_moment_block];
  float middles[coded_moment_block];

  // By all threads of a block.
  __device__ void take(const CodeMap& map) {
    values[threadIdx.x] = map.values[threadIdx.x];
    middles[threadIdx.x] = map.middles[threadIdx.x];
  }
  // How many middles lie below the number; the last one is beyond all.
  __device__ std::uint8_t code_of(float number) const {
    int count = 0;
#pragma unroll
    for (int step = coded_moment_block / 2; step > 0; step /= 2)
      if (number > middles[count + step - 1]) count += step;
    return static_cast<std::uint8_t>(count);
  }
};

// The largest magnitude of a block, and the code of this thread's share of it.
__device__ void code_moment(const NearMap& map, float number, bool is_there, std::int64_t block, std::int64_t place,
                            const CodedMoment& moment) {
  const float most = block_join<threads>(fabsf(number), [](float a, float b) { return fmaxf(a, b); });
  if (threadIdx.x == 0) moment.scales[block] = most;
  if (is_there) moment.codes[place] = map.code_of(most > 0 ? __fdiv_rn(number, most) : number);
}

// A thread for each element of a block of 256, block after block.
template <class Value, class State>
__global__ void __launch_bounds__(threads) coded_adamw_step(AdamW rule, const Value* gradients, std::int64_t count,
                                                            State* parameters, CodedMoment first_moment,
                                                            CodedMoment second_moment) {
  static_assert(threads == coded_moment_block);
  __shared__ NearMap first_map, second_map;
  first_map.take(first_moment.map);
  second_map.take(second_moment.map);
  __syncthreads();
  for (std::int64_t block = blockIdx.x; block * coded_moment_block < count; block += gridDim.x) {
    const std::int64_t place = block * coded_moment_block + threadIdx.x;
    const bool is_there = place < count;
    float first = 0, second = 0;
    if (is_there) {
      const float gradient = gradient_of(gradients[place], rule);
      const float before = first_map.values[first_moment.codes[place]] * first_moment.scales[block];
      const float squares = second_map.values[second_moment.codes[place]] * second_moment.scales[block];
      first = __fmaf_rn(gradient - before, rule.first_share, before);
      second = __fmaf_rn(gradient * rule.second_share, gradient, squares * rule.beta2);
      const float divisor = __fdiv_rn(__fsqrt_rn(second), rule.second_root) + rule.epsilon;
      const float kept = widen(parameters[place]) * rule.kept;
      parameters[place] = narrow<State>(__fmaf_rn(__fdiv_rn(first, divisor), -rule.step_size, kept));
    }
    // Both join all threads first, which have read the old scales by then.
    code_moment(first_map, first, is_there, block, place, first_moment);
    code_moment(second_map, second, is_there, block, place, second_moment);
  }
}

template <class Value, class State, int count>
__global__ void __launch_bounds__(threads)
    sgd_step(Sgd rule, const Value* gradients, std::int64_t packs, State* parameters, State* momentum) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index >= packs) return;
  using States = Pack<State, count>;
  const auto gradient_pack = reinterpret_cast<const Pack<Value, count>*>(gradients)[index];
  States parameter_pack = reinterpret_cast<States*>(parameters)[index];
  States momentum_pack;
  if (momentum != nullptr) momentum_pack = reinterpret_cast<States*>(momentum)[index];
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const float parameter = widen(parameter_pack.values[i]);
    float direction = __fmaf_rn(parameter, rule.decay, gradient_of(gradient_pack.values[i], rule));
    if (momentum != nullptr) {
      if (!rule.first) direction = __fmaf_rn(widen(momentum_pack.values[i]), rule.momentum, direction);
      momentum_pack.values[i] = narrow<State>(direction);
    }
    parameter_pack.values[i] = narrow<State>(__fmaf_rn(direction, -rule.rate, parameter));
  }
  reinterpret_cast<States*>(parameters)[index] = parameter_pack;
  if (momentum != nullptr) reinterpret_cast<States*>(momentum)[index] = momentum_pack;
}

__device__ double number_of(float value) { return static_cast<double>(value); }
__device__ double number_of(Narrow value) { return static_cast<double>(widen(value)); }
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

// Elements of the state that a thread takes at once: 16 bytes.
template <class State>
constexpr int pack_size = static_cast<int>(16 / sizeof(State));

// launch(kernel's pack size, first element, packs): as many packs as there are, then the rest one by one.
template <int at_once, class Launch>
void in_packs(bool packed, std::int64_t count, Launch&& launch) {
  const std::int64_t packs = packed ? count / at_once : 0, done = packs * at_once;
  if (packs > 0) launch(std::integral_constant<int, at_once>{}, std::int64_t{0}, packs);
  if (done < count) launch(std::integral_constant<int, 1>{}, done, count - done);
}

template <class Value, class State>
void launch_adamw(cudaStream_t stream, const AdamW& rule, const Value* gradients, std::int64_t count, void* parameter,
                  void* first_moment, void* second_moment) {
  constexpr int at_once = pack_size<State>;
  auto* const parameters = static_cast<State*>(parameter);
  auto* const firsts = static_cast<State*>(first_moment);
  auto* const seconds = static_cast<State*>(second_moment);
  const bool packed = is_aligned(gradients, at_once * sizeof(Value)) && is_aligned(parameters) && is_aligned(firsts) &&
                      is_aligned(seconds);
  in_packs<at_once>(packed, count, [&](auto size, std::int64_t first, std::int64_t packs) {
    adamw_step<Value, State, size()><<<blocks_for(packs), threads, 0, stream>>>(
        rule, gradients + first, packs, parameters + first, firsts + first, seconds + first);
  });
}

template <class Value, class State>
void launch_coded_adamw(cudaStream_t stream, const AdamW& rule, const Value* gradients, std::int64_t count,
                        void* parameter, const CodedMoment& first_moment, const CodedMoment& second_moment) {
  const std::int64_t blocks = (count + coded_moment_block - 1) / coded_moment_block;
  const auto grid = static_cast<unsigned>(std::min<std::int64_t>(blocks, most_coded_grid));
  coded_adamw_step<<<grid, threads, 0, stream>>>(rule, gradients, count, static_cast<State*>(parameter), first_moment,
                                                 second_moment);
}

template <class Value, class State>
void launch_sgd(cudaStream_t stream, const Sgd& rule, const Value* gradients, std::int64_t count, void* parameter,
                void* buffer) {
  constexpr int at_once = pack_size<State>;
  auto* const parameters = static_cast<State*>(parameter);
  auto* const momentum = static_cast<State*>(buffer);
  const bool packed = is_aligned(gradients, at_once * sizeof(Value)) && is_aligned(parameters) && is_aligned(momentum);
  in_packs<at_once>(packed, count, [&](auto size, std::int64_t first, std::int64_t packs) {
    sgd_step<Value, State, size()><<<blocks_for(packs), threads, 0, stream>>>(
        rule, gradients + first, packs, parameters + first, momentum == nullptr ? nullptr : momentum + first);
  });
}

}  // namespace

LaunchError adamw(Stream stream, const AdamW& rule, const Sum& gradient, std::int64_t count, void* parameter,
                  void* first_moment, void* second_moment) {
  if (count == 0) return "";
  return launched([&] {
    const auto on = static_cast<cudaStream_t>(stream);
    if (gradient.multiples != nullptr)
      launch_adamw<std::int64_t, float>(on, rule, gradient.multiples, count, parameter, first_moment, second_moment);
    else if (gradient.rounded != nullptr)
      launch_adamw<Narrow, Narrow>(on, rule, static_cast<const Narrow*>(gradient.rounded), count, parameter,
                                   first_moment, second_moment);
    else
      launch_adamw<float, float>(on, rule, gradient.values, count, parameter, first_moment, second_moment);
  });
}

LaunchError adamw(Stream stream, const AdamW& rule, const Sum& gradient, std::int64_t count, void* parameter,
                  const CodedMoment& first_moment, const CodedMoment& second_moment) {
  if (count == 0) return "";
  return launched([&] {
    const auto on = static_cast<cudaStream_t>(stream);
    if (gradient.multiples != nullptr)
      launch_coded_adamw<std::int64_t, float>(on, rule, gradient.multiples, count, parameter, first_moment,
                                              second_moment);
    else if (gradient.rounded != nullptr)
      launch_coded_adamw<Narrow, Narrow>(on, rule, static_cast<const Narrow*>(gradient.rounded), count, parameter,
                                         first_moment, second_moment);
    else
      launch_coded_adamw<float, float>(on, rule, gradient.values, count, parameter, first_moment, second_moment);
  });
}

LaunchError sgd(Stream stream, const Sgd& rule, const Sum& gradient, std::int64_t count, void* parameter,
                void* momentum) {
  if (count == 0) return "";
  return launched([&] {
    const auto on = static_cast<cudaStream_t>(stream);
    if (gradient.multiples != nullptr)
      launch_sgd<std::int64_t, float>(on, rule, gradient.multiples, count, parameter, momentum);
    else if (gradient.rounded != nullptr)
      launch_sgd<Narrow, Narrow>(on, rule, static_cast<const Narrow*>(gradient.rounded), count, parameter, momentum);
    else
      launch_sgd<float, float>(on, rule, gradient.values, count, parameter, momentum);
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
    else if (sum.rounded != nullptr)
      sum_squares<<<grid, threads, 0, on>>>(static_cast<const Narrow*>(sum.rounded), count, blocks);
    else
      sum_squares<<<grid, threads, 0, on>>>(sum.values, count, blocks);
  });
}

LaunchError join_blocks(Stream stream, const double* blocks, std::int64_t count, double* result) {
  return launched([&] { add_up<<<1, join_threads, 0, static_cast<cudaStream_t>(stream)>>>(blocks, count, result); });
}

}  // namespace muster::cuda
