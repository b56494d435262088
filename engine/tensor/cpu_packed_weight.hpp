// Packed weights as the CPU's kernels see them.
#pragma once

#include "kernels/coded/coded_matrix.hpp"
#include "tensor/primitives.hpp"

namespace muster::tensor {

// int8, or 4 bits in runs of a power of two from 32 to 4,096.
bool cpu_has_packing(const spec::WeightPacking& packing);

kernels::CodedForm coded_form(at::ScalarType type, const spec::WeightPacking& packing);
kernels::CodedMatrix coded_matrix(const Weight& weight);

std::int64_t packed_bytes(std::int64_t outputs, std::int64_t inputs, const WeightForm& form);

void fill_packed_rows(Weight& weight, std::int64_t first_row, const at::Tensor& rows);
void fill_packed_codes(Weight& weight, std::int64_t first_row, const WeightCodes& rows);
void round_packed_scales(Weight& weight, std::int64_t first_row, std::int64_t rows);

}  // namespace muster::tensor
