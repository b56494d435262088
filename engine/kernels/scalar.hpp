// How numbers are stored. DeviceOps is always float32: values are widened when read and rounded, to the nearest and to
// even on ties, when written.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace muster::kernels {

enum class Scalar { float32, bfloat16, float16 };

struct BFloat16 {
  std::uint16_t bits = 0;
};

struct Float16 {
  std::uint16_t bits = 0;
};

constexpr std::size_t bytes_per_element(Scalar scalar) { return scalar == Scalar::float32 ? 4 : 2; }

[[gnu::always_inline]] constexpr float widen(float value) { return value; }
[[gnu::always_inline]] constexpr float widen(std::int8_t value) { return static_cast<float>(value); }

[[gnu::always_inline]] constexpr float widen(BFloat16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}

[[gnu::always_inline]] constexpr float widen(Float16 value) {
  const std::uint32_t sign = (std::uint32_t{value.bits} & 0x8000U) << 16;
  const std::uint32_t magnitude = std::uint32_t{value.bits} & 0x7FFFU;
  if (magnitude >= 0x7C00U) {  // infinity; a NaN becomes a quiet one
    const std::uint32_t quiet = magnitude > 0x7C00U ? 0x400000U : 0U;
    return std::bit_cast<float>(sign | 0x7F800000U | ((magnitude & 0x3FFU) << 13) | quiet);
  }
  if (magnitude >= 0x400U) return std::bit_cast<float>(sign | ((magnitude << 13) + (112U << 23)));
  const float small = static_cast<float>(magnitude) * 0x1p-24F;  // denormal there, exact here
  return sign != 0 ? -small : small;
}

[[gnu::always_inline]] constexpr void narrow(float value, float& out) { out = value; }

[[gnu::always_inline]] constexpr void narrow(float value, BFloat16& out) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    out.bits = static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  } else {
    out.bits = static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  }
}

[[gnu::always_inline]] constexpr void narrow(float value, Float16& out) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  std::uint32_t result = 0;
  if (magnitude > 0x7F800000U) {
    result = 0x7E00U | ((magnitude >> 13) & 0x3FFU);
  } else if (magnitude >= 0x477FF000U) {  // 65,520 and more round to infinity
    result = 0x7C00U;
  } else if (magnitude >= 0x38800000U) {  // normal there
    const std::uint32_t rebased = magnitude - (112U << 23);
    result = (rebased + 0xFFFU + ((rebased >> 13) & 1U)) >> 13;
  } else {  // adding 1/2 lines the last kept bit up with float32's last bit, and the addition rounds
    const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
    result = std::bit_cast<std::uint32_t>(aligned) - std::bit_cast<std::uint32_t>(0.5F);
  }
  out.bits = static_cast<std::uint16_t>(sign | result);
}

// use(Element{}) with the C++ type that stores this scalar.
template <class Use>
void with_element(Scalar scalar, Use&& use) {
  switch (scalar) {
    case Scalar::float32:
      use(float{});
      break;
    case Scalar::bfloat16:
      use(BFloat16{});
      break;
    case Scalar::float16:
      use(Float16{});
      break;
  }
}

}  // namespace muster::kernels
