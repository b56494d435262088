// How fast the kernels are: kernels_bench [THREADS]. One JSON line per measurement; bench/engine/kernels_peer.py runs
// it beside torch.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "kernels/linear.hpp"
#include "kernels/packed_matrix.hpp"
#include "kernels/thread_team.hpp"

namespace {

using namespace muster::kernels;

// Aligned as torch aligns its storages.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::int64_t count)
      : count_(static_cast<std::size_t>(count)),
        data_(static_cast<T*>(::operator new (count_ * sizeof(T), std::align_val_t{64}))) {
    std::uint32_t state = 12345;
    for (std::size_t i = 0; i < count_; ++i) {
      state = state * 1664525U + 1013904223U;
      narrow(static_cast<float>(state >> 8) * 0x1p-24F - 0.5F, data_[i]);
    }
  }
  ~Buffer() { ::operator delete (data_, std::align_val_t{64}); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  T* data() { return data_; }

 private:
  std::size_t count_;
  T* data_;
};

// The fastest of as many runs as fit into the time: on a shared machine the others measure the neighbours.
double best_seconds(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  work();
  double best = 1e9;
  const auto start = Clock::now();
  for (int i = 0; i < 500 && (i < 5 || Clock::now() - start < std::chrono::milliseconds(300)); ++i) {
    const auto before = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - before).count());
  }
  return best;
}

struct Shape {
  std::int64_t outputs, inputs;
};
constexpr Shape shapes[] = {{576, 576}, {1536, 576}, {576, 1536}, {49152, 576}, {4864, 896}, {896, 4864}, {4096, 4096}};

void report(const char* what, Shape shape, std::int64_t rows, double seconds) {
  fmt::print(
      "{{\"what\": \"{}\", \"outputs\": {}, \"inputs\": {}, \"rows\": {}, \"seconds\": {:.9f}, \"gflops\": {:.2f}}}\n",
      what, shape.outputs, shape.inputs, rows, seconds,
      2e-9 * static_cast<double>(shape.outputs * shape.inputs * rows) / seconds);
  std::fflush(stdout);
}

template <class Element>
void measure_linear(ThreadTeam& team, const char* what, Shape shape, Scalar scalar) {
  Buffer<Element> plain(shape.outputs * shape.inputs), panels((shape.outputs + 15) * shape.inputs);
  PackedMatrix weight(reinterpret_cast<std::byte*>(panels.data()), shape.outputs, shape.inputs, scalar);
  weight.pack_rows(team, 0, shape.outputs, plain.data(), scalar);
  for (const std::int64_t rows : {1, 8, 64, 512}) {
    Buffer<Element> input(rows * shape.inputs), output(rows * shape.outputs);
    report(what, shape, rows,
           best_seconds([&] { linear(team, weight, input.data(), scalar, rows, nullptr, output.data()); }));
  }
}

}  // namespace

int main(int count, char** arguments) {
  ThreadTeam team(count > 1 ? std::atoi(arguments[1]) : 2);
  for (const Shape shape : shapes) measure_linear<float>(team, "linear", shape, Scalar::float32);
  for (const Shape shape : shapes) measure_linear<BFloat16>(team, "linear_bfloat16", shape, Scalar::bfloat16);
  return 0;
}
