// What one element of a stored tensor is.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster::spec {

enum class ElementType {
  float64,
  float32,
  float16,
  bfloat16,
  float8,       // e4m3: 4 bits of exponent, 3 of fraction, no infinities
  float8_e5m2,  // float16's upper half
  float8_e8m0,  // powers of two: scales
  int64,
  int32,
  int16,
  int8,
  uint8,
  boolean,
};

constexpr std::int64_t bytes_per_element(ElementType type) {
  switch (type) {
    case ElementType::float64:
    case ElementType::int64:
      return 8;
    case ElementType::float32:
    case ElementType::int32:
      return 4;
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::int16:
      return 2;
    case ElementType::float8:
    case ElementType::float8_e5m2:
    case ElementType::float8_e8m0:
    case ElementType::int8:
    case ElementType::uint8:
    case ElementType::boolean:
      return 1;
  }
  return 0;
}

constexpr bool is_floating(ElementType type) {
  return type == ElementType::float64 || type == ElementType::float32 || type == ElementType::float16 ||
         type == ElementType::bfloat16 || type == ElementType::float8 || type == ElementType::float8_e5m2;
}

// "float32", "bfloat16": torch's words.
std::string_view name(ElementType type);

}  // namespace muster::spec
