// Some rows of a weight matrix on their way into or out of panels. Inside this layer only.
#pragma once

#include <cstdint>

#include "kernels/scalar.hpp"

namespace muster::kernels {

struct PackingJob {
  void* panels = nullptr;
  Scalar panel_scalar = Scalar::float32;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  void* plain = nullptr;  // packing only reads it
  Scalar plain_scalar = Scalar::float32;
  bool by_columns = false;  // plain is [inputs, stride] instead of [rows, inputs]
  std::int64_t stride = 0;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
};

}  // namespace muster::kernels
