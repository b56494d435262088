// What the fuzz programs have in common: the words they take, the loop over inputs, a watch over how long each takes, and what they print.
#pragma once

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"

namespace muster::fuzz {

inline std::string watched;  // what is tried now, or where it lies; for the signal handler, which can reach nothing else

extern "C" inline void show_watched(int) {
  constexpr std::string_view title = "\nfuzz: too slow, or aborted, on:\n";
  for (const std::string_view part : {title, std::string_view(watched), std::string_view("\n")})
    static_cast<void>(!::write(STDERR_FILENO, part.data(), part.size()));
  ::_exit(1);
}

// From now on an alarm or an abort ends the program and shows what is watched.
inline void watch() {
  ::signal(SIGALRM, show_watched);
  ::signal(SIGABRT, show_watched);
}

// Far more than any input takes, on however busy a machine.
constexpr unsigned longest_seconds = 60;

struct Order {
  std::size_t inputs = 0;
  std::uint64_t seed = 1;
};

// The words after PROGRAM: [--inputs N] [--seed S], by whatever name N has. Nothing where they are none of these.
inline std::optional<Order> read_order(int count, char** words, Order order, std::string_view inputs = "--inputs") {
  for (int i = 1; i < count; i += 2) {
    const std::string_view name = words[i];
    const auto value = parse_number<std::uint64_t>(i + 1 < count ? words[i + 1] : "");
    if (!value || (name != "--seed" && name != inputs)) {
      fmt::print(stderr, "usage: {} [{} N] [--seed S]\n", words[0], inputs);
      return std::nullopt;
    }
    (name == "--seed" ? order.seed : order.inputs) = *value;
  }
  return order;
}

// How often something was come to. Less than the least would mean that what lies behind it was hardly tried.
struct Reached {
  std::string_view what;
  std::size_t times = 0;
  std::size_t least = 1;
};

// The exit status of a program. A Fuzzer is made of a seed; one() tries an input, reached() is asked at the end. Runs shorter than
// `enough` inputs need not have reached anything.
template <class Fuzzer>
int run(std::string_view program, int count, char** words, std::size_t usual, std::size_t enough) {
  const auto order = read_order(count, words, {usual, 1});
  if (!order) return 2;
  watch();
  Fuzzer fuzzer(order->seed);
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < order->inputs; ++i) {
    ::alarm(longest_seconds);
    fuzzer.one();
    if (i % 100'000 == 99'999) fmt::print(stderr, "{}: {} inputs\n", program, i + 1);
  }
  ::alarm(0);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{{\"bench\": \"{}\", \"inputs\": {}, \"seed\": {}, \"seconds\": {:.1f}, \"crashes\": 0", program, order->inputs, order->seed,
             seconds);
  const std::vector<Reached> all = fuzzer.reached();
  for (const Reached& one : all) fmt::print(", \"{}\": {}", one.what, one.times);
  fmt::print("}}\n");
  return order->inputs < enough || std::ranges::all_of(all, [](const Reached& one) { return one.times >= one.least; }) ? 0 : 1;
}

}  // namespace muster::fuzz
