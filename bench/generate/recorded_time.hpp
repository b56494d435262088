// How long work takes on a GPU, without what the host spends on ordering it: calls are recorded, and played many times.
#pragma once

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>

#include <chrono>
#include <functional>

namespace muster::bench {

constexpr int turns = 16;  // weights that take turns, so that none is still in the chip's cache

// The time of one call, which is given the number of its turn.
inline double microseconds(const std::function<void(int)>& call, int replays = 20) {
  using Clock = std::chrono::steady_clock;
  const auto stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard recording(stream);
  for (int i = 0; i < 2; ++i) call(i);
  stream.synchronize();
  at::cuda::CUDAGraph graph;
  graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  for (int i = 0; i < turns; ++i) call(i);
  graph.capture_end();
  graph.replay();
  stream.synchronize();
  const auto start = Clock::now();
  for (int i = 0; i < replays; ++i) graph.replay();
  stream.synchronize();
  return std::chrono::duration<double>(Clock::now() - start).count() / (replays * turns) * 1e6;
}

}  // namespace muster::bench
