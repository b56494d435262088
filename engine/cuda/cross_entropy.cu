// The loss of tokens and its gradient: one block of threads for each row, which stays in the cache from sweep to sweep.
#include "cuda/dispatch.cuh"
#include "cuda/training_kernels.hpp"
#include "cuda/pack.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {
namespace {

constexpr int threads = 1024;  // as choose_tokens has, so that sums run in the same order

// weights: nullptr: the losses alone, and the logits stay.
template <class T>
__global__ void __launch_bounds__(threads)
    lose(T* logits, const std::int64_t* targets, std::int64_t width, const float* weights, float inverse_temperature,
         float* losses) {
  T* const row = logits + static_cast<std::int64_t>(blockIdx.x) * width;
  const std::int64_t target = targets[blockIdx.x];
  const bool known = target >= 0 && target < width;
  const float wanted = known ? widen(row[target]) : NAN;
  float highest = -INFINITY;
  for (std::int64_t token = threadIdx.x; token < width; token += threads) highest = fmaxf(highest, widen(row[token]));
  highest = block_join<threads>(highest, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (std::int64_t token = threadIdx.x; token < width; token += threads) 
    sum += expf((widen(row[token]) - highest) * inverse_temperature);
  const float log_sum = logf(block_sum<threads>(sum));
  if (threadIdx.x == 0) losses[blockIdx.x] = log_sum - (wanted - highest) * inverse_temperature;
  if (weights == nullptr) return;
  const float total = highest * inverse_temperature + log_sum, scale = weights[blockIdx.x] * inverse_temperature;
  for (std::int64_t token = threadIdx.x; token < width; token += threads) {
    const float hit = token == target ? 1.0f : 0.0f;
    row[token] = narrow<T>(scale * (expf(widen(row[token]) * inverse_temperature - total) - hit));
  }
}

// With the entropy of the row, -Σ p ln p, and what it adds to the gradient.
template <class T>
__global__ void __launch_bounds__(threads)
    lose_entropy(T* logits, const std::int64_t* targets, std::int64_t width, const float* weights,
                 const float* entropy_weights, float inverse_temperature, float* losses, float* entropies) {
  constexpr float no_power = -200.0f;  // e^x is 0, and 0 times the lowest of all would not be a number
  T* const row = logits + static_cast<std::int64_t>(blockIdx.x) * width;
  const std::int64_t target = targets[blockIdx.x];
  const bool known = target >= 0 && target < width;
  const float wanted = known ? widen(row[target]) : NAN;
  float highest = -INFINITY;
  for (std::int64_t token = threadIdx.x; token < width; token += threads) highest = fmaxf(highest, widen(row[token]));
  highest = block_join<threads>(highest, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0, weighed = 0;
  for (std::int64_t token = threadIdx.x; token < width; token += threads) {
    const float below = (widen(row[token]) - highest) * inverse_temperature;
    const float power = expf(below);
    sum += power;
    weighed += power * fmaxf(below, no_power);
  }
  const float whole = block_sum<threads>(sum), log_sum = logf(whole);
  const float entropy = log_sum - block_sum<threads>(weighed) / whole;
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = log_sum - (wanted - highest) * inverse_temperature;
    entropies[blockIdx.x] = entropy;
  }
  const float total = highest * inverse_temperature + log_sum, scale = weights[blockIdx.x] * inverse_temperature,
              entropy_scale = entropy_weights[blockIdx.x] * inverse_temperature;
  for (std::int64_t token = threadIdx.x; token < width; token += threads) {
    const float hit = token == target ? 1.0f : 0.0f;
    const float chance = widen(row[token]) * inverse_temperature - total, probability = expf(chance);
    row[token] = narrow<T>(scale * (probability - hit) + entropy_scale * probability * (fmaxf(chance, no_power) + entropy));
  }
}

constexpr int eight = 8;
constexpr int packs_at_once = 4;  // of a thread, on their way before the first is used

__device__ float power(float exponent) { return exp2f(exponent * 1.44269504f); }

// Σ e^((value - highest) · inverse_temperature), of the values so far.
struct PowerSum {
  float highest = -INFINITY;
  float sum = 0;

  __device__ void raise(float value, float inverse_temperature) {
    if (!(value > highest)) return;
    sum *= power((highest - value) * inverse_temperature);
    highest = value;
  }
};

// The same in two sweeps, the second one from the end of the row, which the cache still has.
template <class T>
__global__ void __launch_bounds__(threads)
    lose_packs(T* logits, const std::int64_t* targets, int packs, const float* weights, float inverse_temperature,
               float* losses) {
  using Values = Pack<T, eight>;
  const std::int64_t width = static_cast<std::int64_t>(packs) * eight;
  T* const values = logits + static_cast<std::int64_t>(blockIdx.x) * width;
  auto* const row = reinterpret_cast<Values*>(values);
  const std::int64_t target = targets[blockIdx.x];
  const float wanted = target >= 0 && target < width ? widen(values[target]) : NAN;
  PowerSum own;
  for (int first = static_cast<int>(threadIdx.x); first < packs; first += packs_at_once * threads) {
    Values some[packs_at_once];
#pragma unroll
    for (int i = 0; i < packs_at_once; ++i)
      if (first + i * threads < packs) some[i] = row[first + i * threads];
#pragma unroll
    for (int i = 0; i < packs_at_once; ++i) {
      if (first + i * threads >= packs) break;
      float numbers[eight], top = -INFINITY;
#pragma unroll
      for (int j = 0; j < eight; ++j) top = fmaxf(top, numbers[j] = widen(some[i].values[j]));
      own.raise(top, inverse_temperature);
      const float base = own.highest == -INFINITY ? 0.0f : own.highest;
#pragma unroll
      for (int j = 0; j < eight; ++j) own.sum += power((numbers[j] - base) * inverse_temperature);
    }
  }
  const float highest = block_join<threads>(own.highest, [](float a, float b) { return fmaxf(a, b); });
  const float share = own.highest == -INFINITY ? own.sum : own.sum * power((own.highest - highest) * inverse_temperature);
  const float log_sum = logf(block_sum<threads>(share));
  if (threadIdx.x == 0) losses[blockIdx.x] = log_sum - (wanted - highest) * inverse_temperature;
  if (weights == nullptr) return;
  const float total = highest * inverse_temperature + log_sum, scale = weights[blockIdx.x] * inverse_temperature;
  const int mine = (packs - 1 - static_cast<int>(threadIdx.x)) / threads;  // the last of this thread's
  for (int last = mine; last >= 0; last -= packs_at_once) {
    Values some[packs_at_once];
    const auto place = [&](int i) { return static_cast<int>(threadIdx.x) + (last - i) * threads; };
#pragma unroll
    for (int i = 0; i < packs_at_once; ++i)
      if (last - i >= 0 && place(i) < packs) some[i] = row[place(i)];
#pragma unroll
    for (int i = 0; i < packs_at_once; ++i) {
      if (last - i < 0 || place(i) >= packs) continue;
      const std::int64_t hit = target - static_cast<std::int64_t>(place(i)) * eight;
#pragma unroll
      for (int j = 0; j < eight; ++j) {
        const float chance = power(widen(some[i].values[j]) * inverse_temperature - total);
        some[i].values[j] = narrow<T>(scale * (j == hit ? chance - 1.0f : chance));
      }
      row[place(i)] = some[i];
    }
  }
}

}  // namespace

LaunchError cross_entropy(Stream stream, Scalar scalar, void* logits, const std::int64_t* targets, std::int64_t rows,
                          std::int64_t width, const float* weights, float temperature, bool as_scored,
                          float* losses) {
  if (rows == 0) return "";
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    const auto on = static_cast<cudaStream_t>(stream);
    const auto blocks = static_cast<unsigned>(rows);
    auto* const values = static_cast<T*>(logits);
    constexpr std::size_t bytes = sizeof(Pack<T, eight>);
    if (!as_scored && bytes == 16 && width % eight == 0 && width < INT32_MAX / 2 && is_aligned(logits, bytes))
      lose_packs<T><<<blocks, threads, 0, on>>>(values, targets, static_cast<int>(width / eight), weights,
                                                   1.0f / temperature, losses);
    else
      lose<T><<<blocks, threads, 0, on>>>(values, targets, width, weights, 1.0f / temperature, losses);
  });
}

LaunchError cross_entropy(Stream stream, Scalar scalar, void* logits, const std::int64_t* targets, std::int64_t rows,
                          std::int64_t width, const float* weights, const float* entropy_weights, float temperature,
                          float* losses, float* entropies) {
  if (rows == 0) return "";
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    lose_entropy<T><<<static_cast<unsigned>(rows), threads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<T*>(logits), targets, width, weights, entropy_weights, 1.0f / temperature, losses, entropies);
  });
}

}  // namespace muster::cuda
