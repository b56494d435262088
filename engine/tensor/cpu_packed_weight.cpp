#include "tensor/cpu_packed_weight.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "kernels/coded/scale_rounding.hpp"
#include "tensor/cpu_scalar.hpp"

namespace muster::tensor {
namespace {

kernels::Code code_of(spec::PackedCode code) {
  switch (code) {
    case spec::PackedCode::int8:
      return kernels::Code::int8;
    case spec::PackedCode::nf4:
      return kernels::Code::nf4;
    case spec::PackedCode::fp4:
      return kernels::Code::fp4;
  }
  throw std::logic_error("no code of a packed weight");
}

void check_rows(const Weight& weight, std::int64_t first_row, std::int64_t rows) {
  if (first_row < 0 || rows < 0 || first_row > weight.outputs - rows)
    throw std::invalid_argument("rows that the weight does not have");
}

}  // namespace

bool cpu_has_packing(const spec::WeightPacking& packing) {
  if (packing.code == spec::PackedCode::int8) return true;
  return packing.run >= 32 && packing.run <= 4096 && std::has_single_bit(static_cast<std::uint64_t>(packing.run));
}

kernels::CodedForm coded_form(at::ScalarType type, const spec::WeightPacking& packing) {
  return {code_of(packing.code), packing.run, scalar_of(type)};
}

kernels::CodedMatrix coded_matrix(const Weight& weight) {
  return {static_cast<std::byte*>(weight.storage.mutable_data_ptr()), weight.outputs, weight.inputs,
          coded_form(weight.type, *weight.packing)};
}

std::int64_t packed_bytes(std::int64_t outputs, std::int64_t inputs, const WeightForm& form) {
  return static_cast<std::int64_t>(
      kernels::CodedMatrix::bytes_needed(outputs, inputs, coded_form(form.type, *form.packing)));
}

void fill_packed_rows(Weight& weight, std::int64_t first_row, const at::Tensor& rows) {
  check_rows(weight, first_row, rows.size(0));
  kernels::ThreadTeam alone(1);
  coded_matrix(weight).code_rows(alone, first_row, rows.size(0), rows.const_data_ptr(), scalar_of(rows));
}

void fill_packed_codes(Weight& weight, std::int64_t first_row, const WeightCodes& rows) {
  const bool has_bytes = weight.packing->code == spec::PackedCode::int8;
  const at::Tensor codes = rows.codes.contiguous(), scales = rows.scales.contiguous();
  if (codes.scalar_type() != (has_bytes ? at::kChar : at::kByte) || scales.scalar_type() != at::kFloat)
    throw std::invalid_argument("codes or scales of another type than packed weights have");
  const std::int64_t count = codes.numel() * (has_bytes ? 1 : 2);
  const std::int64_t most_left = has_bytes ? 0 : 1;  // the last byte of 4-bit codes may have one only
  const std::int64_t n = std::min(count / weight.inputs, weight.outputs - first_row);
  check_rows(weight, first_row, n);
  kernels::CodedMatrix matrix = coded_matrix(weight);
  if (count - n * weight.inputs > most_left || scales.numel() != matrix.runs_of(n))
    throw std::invalid_argument("codes and scales of different numbers of rows");
  matrix.fill_codes(first_row, n, static_cast<const std::uint8_t*>(codes.const_data_ptr()),
                    {scales.const_data_ptr<float>(), static_cast<std::size_t>(scales.numel())});
}

void round_packed_scales(Weight& weight, std::int64_t first_row, std::int64_t rows) {
  if (!weight.packing->double_quantized || weight.packing->code == spec::PackedCode::int8) return;
  check_rows(weight, first_row, rows);
  kernels::CodedMatrix matrix = coded_matrix(weight);
  std::vector<float> scales = matrix.scales_of(first_row, rows);
  kernels::round_scales(scales);
  matrix.replace_scales(first_row, rows, scales);
}

}  // namespace muster::tensor
