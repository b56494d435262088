// What threads share of one operation on elements. Inside this layer only.
#pragma once

#include <cstdint>

#include "kernels/activation.hpp"
#include "kernels/scalar.hpp"

namespace muster::kernels {

enum class PointwiseOperation { add, convert, activate, activate_back, gate, gate_back };

constexpr std::int64_t pointwise_block = 256;

struct PointwiseJob {
  PointwiseOperation operation = PointwiseOperation::add;
  Activation activation = Activation::linear;
  const void* first = nullptr;     // input, gate
  const void* second = nullptr;    // the other summand, up
  const void* gradient = nullptr;  // of the output
  void* output = nullptr;
  void* second_output = nullptr;
  Scalar io = Scalar::float32;
  Scalar to = Scalar::float32;  // convert's output
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  // from one row of first, second and their gradients to the next

  std::int64_t row_blocks() const { return (columns + pointwise_block - 1) / pointwise_block; }
};

}  // namespace muster::kernels
