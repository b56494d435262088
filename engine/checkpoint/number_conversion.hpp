// Numbers of one floating type as another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "spec/element_type.hpp"

namespace muster::checkpoint {

// Whether numbers can be read from and given as this type: float64, float32, float16 or bfloat16.
bool is_convertible(spec::ElementType type);

// All numbers of in, one after the other, into out. Exact where the type can hold them, else rounded to the nearest,
// ties to even (float64 by way of float32, as torch does); what is not a number stays so. Both types must be
// convertible, and both spans hold the same count.
void convert_numbers(spec::ElementType from, std::span<const std::byte> in, spec::ElementType to,
                     std::span<std::byte> out);

float half_to_float(std::uint16_t half);

}  // namespace muster::checkpoint
