// The lengths of a weight's rows, by which DoRA scales what they give.
#pragma once

#include "tensor/primitives.hpp"

namespace muster::tensor {

// scale · up·down, of which up has a row for each that is asked for.
struct AddedProduct {
  const Weight& up;    // [rows, rank]
  const Weight& down;  // [rank, inputs]
  double scale = 1;
};

// √Σ number² of rows first_row to first_row + rows - 1, with what is added to them: float32 [rows], on the device. Each is
// one chain of operations that knows no other row and no thread: a row has the same bits on every rank.
at::Tensor row_norms(Primitives& primitives, const Weight& weight, std::int64_t first_row, std::int64_t rows,
                     const std::optional<AddedProduct>& added = std::nullopt);

}  // namespace muster::tensor
