// What stands in for a GPU in the other tests of this folder: testing/cuda_on_cpu.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda/dependent_launch.cuh"
#include "cuda/launched_memory.cuh"
#include "cuda/tensor_core.cuh"
#include "cuda/warp.cuh"
#include "kernels/scalar.hpp"

namespace muster::cuda {
namespace {

using cuda_on_cpu::Order;
using cuda_on_cpu::Threads;

class OnCpu : public testing::Test {
 protected:
  ~OnCpu() override { Threads::current().order = Order::ascending; }
};

void number_all(int* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = static_cast<int>(threadIdx.x + blockIdx.x); }

TEST_F(OnCpu, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> found(3 * 96, -1);
  launch_overlapping(number_all, 3, 96, 0, nullptr, found.data());
  for (int i = 0; i < 3 * 96; ++i) EXPECT_EQ(found[static_cast<std::size_t>(i)], i % 96 + i / 96);
}

void turn_around(int* out) {
  int* const shared = launched_memory<int>();
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}
void turn_around_too_soon(int* out) {
  int* const shared = launched_memory<int>();
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

TEST_F(OnCpu, ABarrierIsWaitedForAndAMissingOneIsSeen) {
  for (const Order order : {Order::ascending, Order::descending}) {
    Threads::current().order = order;
    std::vector<int> found(64), early(64);
    launch_overlapping(turn_around, 1, 64, 64 * sizeof(int), nullptr, found.data());
    launch_overlapping(turn_around_too_soon, 1, 64, 64 * sizeof(int), nullptr, early.data());
    for (int i = 0; i < 64; ++i) EXPECT_EQ(found[static_cast<std::size_t>(i)], 63 - i);
    EXPECT_NE(found, early);
  }
}

void end_before_the_barrier(int*) {
  if (threadIdx.x != 3) __syncthreads();
}

TEST_F(OnCpu, ABarrierThatSomeNeverReachIsReported) {
  EXPECT_THROW(launch_overlapping(end_before_the_barrier, 1, 64, 0, nullptr, static_cast<int*>(nullptr)),
               std::logic_error);
  EXPECT_NO_THROW(launch_overlapping(turn_around, 1, 64, 64 * sizeof(int), nullptr, std::vector<int>(64).data()));
}

void ask_others(int* out) {
  const int own = static_cast<int>(threadIdx.x);
  const int next = __shfl_sync(whole_warp, own, own + 1);
  const int in_half = __shfl_sync(whole_warp, own, 3 + 16 * own, 16);  // the lane's number within each half: 3
  const auto sum = static_cast<int>(warp_sum(static_cast<float>(own % 32)));
  out[3 * own] = next, out[3 * own + 1] = in_half, out[3 * own + 2] = sum;
}

TEST_F(OnCpu, LanesAskEachOther) {
  for (const Order order : {Order::ascending, Order::descending}) {
    Threads::current().order = order;
    std::vector<int> found(3 * 64);
    launch_overlapping(ask_others, 1, 64, 0, nullptr, found.data());
    for (int i = 0; i < 64; ++i) {
      EXPECT_EQ(found[static_cast<std::size_t>(3 * i)], i / 32 * 32 + (i + 1) % 32);
      EXPECT_EQ(found[static_cast<std::size_t>(3 * i + 1)], i / 16 * 16 + 3);
      EXPECT_EQ(found[static_cast<std::size_t>(3 * i + 2)], 31 * 16);
    }
  }
}

// a: [16, 16], b: [16, 8], as the lanes of one warp have them.
void multiply_one_tile(const float* a, const float* b, float* out) {
  const int i = static_cast<int>(threadIdx.x) / 4, j = static_cast<int>(threadIdx.x) % 4;
  const auto two = [](float low, float high) {
    return static_cast<unsigned>(__float2bfloat16_rn(low).bits) |
           static_cast<unsigned>(__float2bfloat16_rn(high).bits) << 16;
  };
  const auto of_row = [&](int row, int k) { return two(a[row * 16 + k], a[row * 16 + k + 1]); };
  const auto of_column = [&](int k) { return two(b[k * 8 + i], b[(k + 1) * 8 + i]); };
  float sum[4] = {1, 1, 1, 1};
  const unsigned rows[4] = {of_row(i, 2 * j), of_row(i + 8, 2 * j), of_row(i, 2 * j + 8), of_row(i + 8, 2 * j + 8)};
  multiply_tile<__nv_bfloat16>(sum, rows, of_column(2 * j), of_column(2 * j + 8));
  for (int at = 0; at < 4; ++at) out[(i + at / 2 * 8) * 8 + 2 * j + at % 2] = sum[at];
}

TEST_F(OnCpu, ATileIsTheProductOfTwoMatrices) {
  std::vector<float> a(256), b(128), found(128);
  for (std::size_t i = 0; i < 256; ++i) a[i] = static_cast<float>(i * 37 % 61) - 30;
  for (std::size_t i = 0; i < 128; ++i) b[i] = static_cast<float>(i * 29 % 53) - 26;
  launch_overlapping(multiply_one_tile, 1, 32, 0, nullptr, a.data(), b.data(), found.data());
  for (std::size_t row = 0; row < 16; ++row)
    for (std::size_t column = 0; column < 8; ++column) {
      float sum = 1;
      for (std::size_t k = 0; k < 16; ++k) sum += a[row * 16 + k] * b[k * 8 + column];
      EXPECT_EQ(found[row * 8 + column], sum);
    }
}

// The library's conversions, which are tested against every number, are the judge.
TEST_F(OnCpu, NumbersOf16BitsAreThoseOfTheCpusKernels) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = kernels::widen(kernels::Float16{half});
    if (std::isnan(value)) continue;
    ASSERT_EQ(__half2float(__half{half}), value);
    ASSERT_EQ(__float2half_rn(value).bits, half);
  }
  for (std::uint64_t bits = 0; bits <= 0xFFFFFFFF; bits += 4999) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isnan(value)) continue;
    kernels::Float16 half;
    kernels::BFloat16 brain;
    kernels::narrow(value, half);
    kernels::narrow(value, brain);
    ASSERT_EQ(__float2half_rn(value).bits, half.bits) << value;
    ASSERT_EQ(__float2bfloat16_rn(value).bits, brain.bits) << value;
    ASSERT_EQ(__bfloat162float(__nv_bfloat16{brain.bits}), kernels::widen(brain));
  }
}

}  // namespace
}  // namespace muster::cuda
