// Packed weights through tensor operations alone, on any device, where that has no kernels of its own for them. They lie
// there as on a CPU (kernels/coded_panels.hpp).
#pragma once

#include "tensor/primitives.hpp"

namespace muster::tensor {

// What the sixteen codes of 4 bits stand for, float32, on the device; undefined for 8 bits.
at::Tensor code_values(spec::PackedCode code, at::Device device);

// [outputs, inputs], of the weight's type. values: code_values of its code, on its device.
at::Tensor unpacked(const Weight& weight, const at::Tensor& values);
// Rows first_row to first_row + rows - 1 of it.
at::Tensor unpacked_rows(const Weight& weight, const at::Tensor& values, std::int64_t first_row, std::int64_t rows);

// Rows first_row and following of the weight become those of `rows`, a packed weight of the same form in the host's
// memory. Several threads may do so for different rows.
void copy_packed_rows(const Weight& weight, std::int64_t first_row, const Weight& rows);
// The scales alone, of all rows.
void copy_packed_scales(const Weight& weight, const Weight& from);

}  // namespace muster::tensor
