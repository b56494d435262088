// Where the gradient of one parameter is added up: over sequences, passes and ranks.
//
// Note [Exact sums]
// A float32 sum depends on the order in which its terms come, and so on the layout of a run. An exact one counts in
// whole multiples of 2^-44: each term is rounded once, by itself, and whole numbers can be added in any order. A term
// of a product is the chain over the rows of one sequence; a term of a sum over rows is one row. What is too large for
// 64 bits, or not a number, is counted in overflow.
#pragma once

#include "tensor/torch.hpp"

namespace muster::tensor {

inline constexpr int exact_bits = 44;
// A term of this size or more overflows.
inline constexpr double exact_limit = 65536;

struct GradientSum {
  // Contiguous, of the parameter's shape; float32, bfloat16, or int64 for an exact sum. Undefined: not wanted. What is
  // added to a bfloat16 sum at a time is added up in float32, and the sum is rounded once.
  at::Tensor values;
  at::Tensor overflow;  // of an exact sum: int64 [1], on the same device

  bool wanted() const { return values.defined(); }
  bool exact() const { return values.scalar_type() == at::kLong; }
};

}  // namespace muster::tensor
