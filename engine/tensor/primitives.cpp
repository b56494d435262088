#include "tensor/primitives.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace muster::tensor {

// Powers of two: the larger one is a multiple of the other.
std::int64_t Primitives::rows_between_cuts(const Weight& weight) {
  if (!weight.packing || weight.packing->code == spec::PackedCode::int8) return row_alignment;
  const std::int64_t run = weight.packing->run;
  return std::max(row_alignment, run / std::gcd(run, weight.inputs));
}

void Primitives::fill_codes(Weight&, std::int64_t, const WeightCodes&) {
  throw std::logic_error("this device has no packed weights");
}

void Primitives::round_scales(Weight& weight, std::int64_t, std::int64_t) {
  if (weight.packing) throw std::logic_error("this device has no packed weights");
}

at::Tensor Primitives::numbers(const Weight& weight, std::int64_t first_row, std::int64_t rows) {
  return take_rows(weight, at::arange(first_row, first_row + rows, weight.storage.options().dtype(at::kLong)));
}

}  // namespace muster::tensor
