// What each method of quantising keeps of a matrix.
#pragma once

#include <span>

#include "spec/model/quantized/quantized_parts.hpp"

namespace muster::spec {

// Parts by which the codes of a matrix are known, where there is no weight of its shape.
std::span<const std::string_view> parts_of_codes(const CheckpointQuantization& quantization);

// Notes what is missing, or is not as the matrix and the method ask for.
void check_parts(const BitsAndBytesQuantization& method, QuantizedParts& parts);
void check_parts(const Float8Quantization& method, QuantizedParts& parts);
void check_parts(const CompressedQuantization& method, QuantizedParts& parts);
void check_parts(const GptqQuantization& method, QuantizedParts& parts);
void check_parts(const AwqQuantization& method, QuantizedParts& parts);

// Words of zero points that each output has in AWQ's gemv layout, which has room for more than its groups; 0: the layout
// has no such groups.
std::int64_t awq_zero_words(std::int64_t columns, std::int64_t group);

// "weight.quant_state.bitsandbytes__nf4": with what the 4-bit codes of a matrix are.
std::string state_part(PackedCode code);

}  // namespace muster::spec
