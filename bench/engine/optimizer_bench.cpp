// What a step of AdamW costs with moments in float32 and in 8 bits: optimizer_bench [THREADS [ELEMENTS]]. One JSON line
// each; they take turns, and the fastest step of each counts. With one thread it is the processor's time, otherwise the
// clock's.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "kernels/optimizer.hpp"

namespace {

using namespace muster::kernels;

constexpr int steps = 20;
constexpr std::int64_t block = 256;

double seconds_of(bool of_processor, const std::function<void()>& work) {
  const auto now = [of_processor] {
    std::timespec time{};
    clock_gettime(of_processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

std::vector<float> drawn(std::size_t count, float width) {
  std::mt19937 chance(1);
  std::normal_distribution<float> normal(0.0F, width);
  std::vector<float> numbers(count);
  std::ranges::generate(numbers, [&] { return normal(chance); });
  return numbers;
}

struct Measured {
  std::string_view what;
  std::function<void(const AdamWRule&)> step;
  double fastest = std::numeric_limits<double>::infinity();
};

}  // namespace

int main(int arguments, char** words) {
  const int threads = arguments > 1 ? std::atoi(words[1]) : 1;
  const std::int64_t count = arguments > 2 ? std::atoll(words[2]) : std::int64_t{1} << 24;
  ThreadTeam team(threads);
  const auto size = static_cast<std::size_t>(count), blocks = static_cast<std::size_t>((count + block - 1) / block);
  std::vector<float> gradient = drawn(size, 0.1F), wide = drawn(size, 1.0F), coded = wide, first(size), second(size);
  std::vector<std::uint8_t> codes(2 * size);
  std::vector<float> scales(2 * blocks);
  const Sum sum{.values = gradient.data()};
  Measured all[] = {
      {"adamw",
       [&](const AdamWRule& rule) {
         adamw(team, rule, sum, count, Scalar::float32, wide.data(), first.data(), second.data());
       }},
      {"adamw_8bit",
       [&](const AdamWRule& rule) {
         adamw(team, rule, sum, count, Scalar::float32, coded.data(), CodedMoment{codes.data(), scales.data()},
               CodedMoment{codes.data() + size, scales.data() + blocks});
       }},
  };
  for (std::int64_t step = 1; step <= steps; ++step)
    for (Measured& one : all) {
      const AdamWRule rule{.rate = 1e-3, .decay = 0.01, .step = step};
      one.fastest = std::min(one.fastest, seconds_of(threads == 1, [&] { one.step(rule); }));
    }
  for (const Measured& one : all)
    fmt::print(R"({{"what": "{}", "elements": {}, "threads": {}, "vectors": "{}", "seconds": {:.6f}}})"
               "\n",
               one.what, count, threads, name(team.vector_set()), one.fastest);
}
