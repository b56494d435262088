// Which elements of rows are left out: the same whatever batch, rank or device a row is on.
#pragma once

#include <cstdint>

#include "base/bit_mix.hpp"
#include "tensor/torch.hpp"

namespace muster::tensor {

struct Dropout {
  double share = 0;     // below 1
  at::Tensor row_keys;  // [rows], int64, on the device: a number of each row
  std::int64_t salt = 0;

  // A number of 24 bits for every element; it stays where that is at least the limit.
  static std::uint64_t draw(std::uint64_t row_key, std::int64_t salt, std::int64_t column) {
    const std::uint64_t place = (static_cast<std::uint64_t>(salt) << 32) + static_cast<std::uint64_t>(column) + 1;
    return mix_bits(row_key + place * 0x9e3779b97f4a7c15u) >> 40;
  }
  std::int64_t limit() const { return static_cast<std::int64_t>(share * (1 << 24)); }
  // What stays is multiplied by this.
  float factor() const { return static_cast<float>(1 / (1 - share)); }
};

// float32 [rows, width], on the device: the factor, or 0 for what is left out. By operations that every device has.
at::Tensor kept_inputs(const Dropout& dropout, std::int64_t width);

}  // namespace muster::tensor
