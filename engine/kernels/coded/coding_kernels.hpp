// Codes and scales for runs of numbers, for one kind of lanes; bit for bit those of bitsandbytes on CPU.
#pragma once

#include <algorithm>

#include "kernels/coded/coded_panels.hpp"
#include "kernels/row_access.hpp"

namespace muster::kernels {

template <class L>
struct CodingKernels {
  static constexpr std::int64_t most_at_once = 4096;  // what a run of 4 bits has at most

  template <class Element>
  static float largest_magnitude(const Element* plain, std::int64_t count) {
    L most = L::broadcast(0.0F);
    for (std::int64_t i = 0; i < count; i += 16) most = L::larger_magnitude(most, load_some<L>(plain + i, count - i));
    float lanes[16];
    most.store(static_cast<float*>(lanes));
    std::uint32_t bits = 0;
    for (const float lane : lanes) bits = std::max(bits, std::bit_cast<std::uint32_t>(lane));
    return std::bit_cast<float>(bits);
  }

  // What the library does with a tensor's last run where that is short, it does a little differently.
  template <class Element>
  static void code_nibbles(const CodingJob& job, std::int64_t run) {
    const std::int64_t length = job.panels.form.run, first = run * length;
    const std::int64_t count = std::min(length, job.elements() - first);
    const auto* plain = static_cast<const Element*>(job.plain) + first;
    const float most = largest_magnitude(plain, count);
    const float divisor = most < least_magnitude ? least_magnitude : most;
    const bool is_short = count < length;
    const CodeTable& table = code_table(job.panels.form.code);
    const L one = L::broadcast(1.0F), zero = L::broadcast(0.0F);
    const L factor = L::broadcast(1.0F / divisor);
    std::uint8_t codes[most_at_once];
    for (std::int64_t i = 0; i < count; i += 16) {
      const L number = load_some<L>(plain + i, count - i);
      const L share = is_short ? number / L::broadcast(divisor) : number * factor;
      L place = zero;
      for (const float bound : table.bounds) place = place + L::where_less(L::broadcast(bound), share, one, zero);
      float places[16];
      place.store(static_cast<float*>(places));
      for (std::int64_t j = 0; j < std::min<std::int64_t>(16, count - i); ++j)
        codes[i + j] = table.order[static_cast<std::size_t>(places[j])];
    }
    place_codes(job, first, count, static_cast<const std::uint8_t*>(codes));
    place_magnitude(job, first, count, is_short ? divisor : most);
  }

  // The library sees the row in float16.
  template <class Element>
  static void code_bytes(const CodingJob& job, std::int64_t row) {
    const std::int64_t inputs = job.panels.inputs;
    const auto* plain = static_cast<const Element*>(job.plain) + row * inputs;
    float most = 0;
    Float16 seen[most_at_once];
    const auto over = [&](auto&& use) {
      for (std::int64_t k = 0; k < inputs; k += most_at_once) {
        const std::int64_t count = std::min(most_at_once, inputs - k);
        for (std::int64_t i = 0; i < count; i += 16)
          store_some(load_some<L>(plain + k + i, count - i), static_cast<Float16*>(seen) + i, count - i);
        use(k, count);
      }
    };
    over([&](std::int64_t, std::int64_t count) {
      const float here = largest_magnitude(static_cast<const Float16*>(seen), count);
      if (std::bit_cast<std::uint32_t>(here) > std::bit_cast<std::uint32_t>(most)) most = here;
    });
    // torch divides a number by a tensor so, with two roundings.
    const L factor = L::broadcast(1.0F / most * 127.0F), origin = L::broadcast(0x1.8p23F);
    over([&](std::int64_t k, std::int64_t count) {
      std::uint8_t codes[most_at_once];
      for (std::int64_t i = 0; i < count; i += 16) {
        const L number = load_some<L>(static_cast<const Float16*>(seen) + i, count - i);
        float whole[16];  // adding 1.5 * 2^23 leaves no bit behind the point
        ((number * factor + origin) - origin).store(static_cast<float*>(whole));
        for (std::int64_t j = 0; j < std::min<std::int64_t>(16, count - i); ++j) {
          const bool is_number = whole[j] >= -127.0F && whole[j] <= 127.0F;
          codes[i + j] = static_cast<std::uint8_t>(static_cast<std::int8_t>(is_number ? whole[j] : 0.0F));
        }
      }
      place_codes(job, row * inputs + k, count, static_cast<const std::uint8_t*>(codes));
    });
    place_magnitude(job, row * inputs, inputs, most);
  }

  // units: runs
  static void code_runs(const CodingJob& job, std::int64_t begin, std::int64_t end) {
    with_element(job.plain_scalar, [&](auto element) {
      for (std::int64_t run = begin; run < end; ++run) {
        job.panels.has_bytes() ? code_bytes<decltype(element)>(job, run) : code_nibbles<decltype(element)>(job, run);
      }
    });
  }
};

}  // namespace muster::kernels
