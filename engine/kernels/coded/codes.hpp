// Numbers of 8 and 4 bits: what a code stands for before it is multiplied by the scale of its run. The codes and tables
// are those of bitsandbytes.
#pragma once

#include <array>
#include <cstdint>

namespace muster::kernels {

enum class Code { int8, nf4, fp4 };

// The sixteen codes of 4 bits.
struct CodeTable {
  alignas(64) std::array<float, 16> values;
  std::array<std::uint8_t, 16> order;  // the codes in ascending order of their values
  std::array<float, 15> bounds;        // a number is coded as order[how many of these are below it]

  std::uint8_t code_of(float number) const {
    std::size_t below = 0;
    while (below < bounds.size() && bounds[below] < number) ++below;
    return order[below];
  }
};
const CodeTable& code_table(Code code);

// 8 bits: what the largest magnitude of a row is multiplied by to be its scale.
constexpr float byte_step = 1.0F / 127.0F;
// 4 bits: a run whose numbers are all smaller is divided by this.
constexpr float least_magnitude = 1e-38F;

}  // namespace muster::kernels
