// Kernels over weights in 8 and 4 bits, as device_kernels.hpp: raw device pointers, no torch.
//
// Note [Words of codes]
// Codes lie in panels of sixteen outputs: [inputs / n][16] words of 32 bits, where the code of input n g + i is part i,
// lowest first, of a word of group g. A word has n = 8 codes of 4 bits, as on a CPU (kernels/coded/coded_panels.hpp), or
// n = 4 of 8 bits, which a CPU keeps byte by byte. So 16 bytes are four outputs' codes of the same inputs, and what a
// tensor core takes from one lane are consecutive inputs. Scales and phases lie as on a CPU.
#pragma once

#include "cuda/device_kernels.hpp"

namespace muster::cuda {

// A matrix [outputs, inputs] of codes. Each number is what its code stands for times the scale of its run, in float32,
// rounded to the type that is computed in.
struct PackedMatrix {
  const void* codes = nullptr;             // aligned to 16 bytes, as scales are
  const float* scales = nullptr;           // [panels][slots][16]
  const std::uint16_t* phases = nullptr;   // [panels][16]; null: no run crosses rows
  const float* values = nullptr;           // on the host: what the 16 codes of 4 bits stand for; null: 8 bits
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  std::int64_t slots = 1;
  std::int64_t run = 0;  // 4 bits: a power of two

  bool has_bytes() const { return values == nullptr; }
};

// matrix [outputs, inputs], aligned to 16 bytes, becomes the numbers.
LaunchError unpack(Stream stream, Scalar scalar, const PackedMatrix& packed, void* matrix);

// As small_batch_product and gated_product, in an order of its own, which depends on whether there are up to 8, 16, 32
// or 64 rows, and on nothing else about the other rows. Numbers are rounded otherwise than by `unpack`: what codes of 4
// bits stand for, to the type that is computed in; products with scales, not.
constexpr std::int64_t most_packed_rows = 64;
bool has_packed_product(Scalar scalar, const PackedMatrix& weight, std::int64_t rows);
LaunchError packed_product(Stream stream, Scalar scalar, const PackedMatrix& weight, const void* bias,
                           const void* input, std::int64_t rows, bool adds, void* output);

// weight: [2 * outputs, inputs], gates first.
bool has_packed_gated_product(Scalar scalar, const PackedMatrix& weight, std::int64_t rows);
LaunchError packed_gated_product(Stream stream, Scalar scalar, const PackedMatrix& weight, const void* bias,
                                 const void* input, std::int64_t rows, void* output);

}  // namespace muster::cuda
