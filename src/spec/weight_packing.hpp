// How the weights of linear layers are held in 8 or 4 bits: codes, and the scales that runs of them share. The numbers
// are those of bitsandbytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "spec/values.hpp"

namespace muster::spec {

// What a code of a packed weight stands for: a whole number of 8 bits, or a place in a table of 16 numbers.
enum class PackedCode { int8, nf4, fp4 };
std::vector<Word<PackedCode>> words(PackedCode);

struct WeightPacking {
  PackedCode code = PackedCode::nf4;
  // 4 bits: this many consecutive elements of the matrix, row by row, share a scale. In 8 bits a row does.
  std::int64_t run = 64;
  bool double_quantized = false;  // 4 bits: the scales are held in 8 bits themselves

  int bits() const { return code == PackedCode::int8 ? 8 : 4; }

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("code", self.code);
    visit("run", self.run);
    visit("double_quantized", self.double_quantized);
  }
  bool operator==(const WeightPacking&) const = default;
};

}  // namespace muster::spec
