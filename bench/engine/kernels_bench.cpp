// How fast the kernels are: kernels_bench [THREADS]. One JSON line per measurement; bench/engine/kernels_peer.py runs
// it beside torch.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <new>
#include <string_view>
#include <vector>

#include "kernels/attention.hpp"
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

// With one thread the processor's time is taken, which others on the machine disturb least.
double now(bool by_processor) {
  timespec time{};
  clock_gettime(by_processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The fastest of as many runs as fit into the time: on a shared machine the others measure the neighbours.
double best_seconds(const ThreadTeam& team, const std::function<void()>& work) {
  const bool by_processor = team.size() == 1;
  work();
  double best = 1e9;
  const double start = now(by_processor);
  for (int i = 0; i < 500 && (i < 5 || now(by_processor) - start < 0.3); ++i) {
    const double before = now(by_processor);
    work();
    best = std::min(best, now(by_processor) - before);
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
           best_seconds(team, [&] { linear(team, weight, input.data(), scalar, rows, nullptr, output.data()); }));
  }
}

void measure_gradients(ThreadTeam& team, Shape shape) {
  Buffer<float> plain(shape.outputs * shape.inputs), panels((shape.outputs + 15) * shape.inputs);
  PackedMatrix weight(reinterpret_cast<std::byte*>(panels.data()), shape.outputs, shape.inputs, Scalar::float32);
  weight.pack_rows(team, 0, shape.outputs, plain.data(), Scalar::float32);
  for (const std::int64_t rows : {64, 512}) {
    Buffer<float> input(rows * shape.inputs), output(rows * shape.outputs);
    report("linear_input_gradient", shape, rows, best_seconds(team, [&] {
             linear_input_gradient(team, weight, output.data(), Scalar::float32, rows, input.data());
           }));
    report("linear_weight_gradient", shape, rows, best_seconds(team, [&] {
             linear_weight_gradient(team, output.data(), input.data(), Scalar::float32, {&rows, 1}, shape.outputs,
                                    shape.inputs, {.values = plain.data()});
           }));
  }
}

struct AttentionCase {
  std::int64_t heads, kv_heads, head_size, rows, keys;
};
constexpr AttentionCase attention_cases[] = {{9, 3, 64, 1024, 1024},   {9, 3, 64, 2048, 2048}, {14, 2, 64, 1024, 1024},
                                             {32, 8, 128, 1024, 1024}, {9, 3, 64, 1, 1024},    {32, 8, 128, 1, 4096}};

void report(const char* what, const AttentionCase& c, double seconds) {
  fmt::print(
      "{{\"what\": \"{}\", \"heads\": {}, \"kv_heads\": {}, \"head_size\": {}, \"rows\": {}, \"keys\": {}, "
      "\"seconds\": {:.9f}}}\n",
      what, c.heads, c.kv_heads, c.head_size, c.rows, c.keys, seconds);
  std::fflush(stdout);
}

void measure_attention(ThreadTeam& team, const AttentionCase& c) {
  const std::int64_t queries = c.rows * c.heads * c.head_size, keys = c.keys * c.kv_heads * c.head_size;
  Buffer<float> query(queries), key(keys), value(keys), output(queries), log_sum(c.rows * c.heads);
  Buffer<float> query_gradient(queries), key_gradient(keys), value_gradient(keys);
  const void* key_block = key.data();
  const void* value_block = value.data();
  const AttentionShape shape{c.heads, c.kv_heads, c.head_size, 1.0F / std::sqrt(static_cast<float>(c.head_size))};
  const AttentionSequence sequence{.queries = query.data(),
                                   .output = output.data(),
                                   .rows = c.rows,
                                   .position = c.keys - c.rows,
                                   .cache = {c.keys, &key_block, &value_block, c.kv_heads * c.head_size},
                                   .log_sum = log_sum.data()};
  report("attention", c, best_seconds(team, [&] { attention(team, shape, Scalar::float32, {&sequence, 1}); }));
  if (c.rows != c.keys || c.rows > 1024) return;
  const AttentionGradient gradient{query.data(),          key.data(),    value.data(),          output.data(),
                                   log_sum.data(),        output.data(), query_gradient.data(), key_gradient.data(),
                                   value_gradient.data(), c.rows};
  report("attention_gradient", c, best_seconds(team, [&] {
           attention_gradient(team, shape, Scalar::float32, {&gradient, 1});
         }));
}

}  // namespace

int main(int count, char** arguments) {
  ThreadTeam team(count > 1 ? std::atoi(arguments[1]) : 2);
  const std::string_view wanted = count > 2 ? arguments[2] : "";
  const auto is_wanted = [&](std::string_view what) { return what.starts_with(wanted); };
  for (const Shape shape : shapes) {
    if (is_wanted("linear")) measure_linear<float>(team, "linear", shape, Scalar::float32);
  }
  for (const Shape shape : shapes) {
    if (is_wanted("linear_bfloat16")) measure_linear<BFloat16>(team, "linear_bfloat16", shape, Scalar::bfloat16);
  }
  for (const Shape shape : shapes) {
    if (is_wanted("linear_gradient")) measure_gradients(team, shape);
  }
  for (const AttentionCase& one : attention_cases) {
    if (is_wanted("attention")) measure_attention(team, one);
  }
  return 0;
}
