#include "checkpoint/number_conversion.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

#include "checkpoint/vector_clones.hpp"

namespace muster::checkpoint {
namespace {

using spec::ElementType;

struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};

// All branches are computed and one is chosen, so that the compiler can take many numbers at once.
inline float from_half(std::uint16_t half) {
  const std::uint32_t magnitude = half & 0x7FFFu;
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t normal = (magnitude << 13) + (112u << 23);  // the exponents' biases differ by 112
  const float small = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F;  // exact
  const std::uint32_t special = magnitude << 13 | 0x7F800000u;
  const std::uint32_t bits = magnitude < 0x400u     ? std::bit_cast<std::uint32_t>(small)
                             : magnitude >= 0x7C00u ? special
                                                    : normal;
  return std::bit_cast<float>(sign | bits);
}

inline std::uint16_t to_half(float number) {
  const auto whole = std::bit_cast<std::uint32_t>(number);
  const std::uint32_t magnitude = whole & 0x7FFFFFFFu;
  const std::uint32_t sign = whole >> 16 & 0x8000u;
  // Adding half rounds to the spacing of float16's smallest numbers, 2^-24, which is that of floats from 0.5 to 1.
  const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000u;
  const std::uint32_t normal = (magnitude + 0xFFFu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
  const std::uint32_t bits = magnitude > 0x7F800000u    ? 0x7E00u
                             : magnitude >= 0x477FF000u ? 0x7C00u  // from 65520 on
                             : magnitude < 0x38800000u  ? small    // below 2^-14
                                                        : normal;
  return static_cast<std::uint16_t>(sign | bits);
}

inline float from_brain(std::uint16_t brain) { return std::bit_cast<float>(static_cast<std::uint32_t>(brain) << 16); }

inline std::uint16_t to_brain(float number) {
  const auto whole = std::bit_cast<std::uint32_t>(number);
  const std::uint32_t rounded = (whole + 0x7FFFu + (whole >> 16 & 1u)) >> 16;
  return static_cast<std::uint16_t>((whole & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC0u : rounded);
}

inline float as_float(float number) { return number; }
inline float as_float(Half number) { return from_half(number.bits); }
inline float as_float(Brain number) { return from_brain(number.bits); }
inline float as_float(double number) { return static_cast<float>(number); }

inline void put(float number, float& target) { target = number; }
inline void put(float number, Half& target) { target.bits = to_half(number); }
inline void put(float number, Brain& target) { target.bits = to_brain(number); }
inline void put(float number, double& target) { target = static_cast<double>(number); }

template <class From, class To>
inline void convert_all(const std::byte* in, std::byte* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    From number;
    To converted;
    std::memcpy(&number, in + i * sizeof(From), sizeof(From));  // neither side needs to be aligned
    put(as_float(number), converted);
    std::memcpy(out + i * sizeof(To), &converted, sizeof(To));
  }
}

#define MUSTER_CONVERSION(name, From, To)                                                  \
  MUSTER_VECTOR_CLONES void name(const std::byte* in, std::byte* out, std::size_t count) { \
    convert_all<From, To>(in, out, count);                                                 \
  }
MUSTER_CONVERSION(half_as_float, Half, float)
MUSTER_CONVERSION(half_as_brain, Half, Brain)
MUSTER_CONVERSION(half_as_double, Half, double)
MUSTER_CONVERSION(brain_as_float, Brain, float)
MUSTER_CONVERSION(brain_as_half, Brain, Half)
MUSTER_CONVERSION(brain_as_double, Brain, double)
MUSTER_CONVERSION(float_as_half, float, Half)
MUSTER_CONVERSION(float_as_brain, float, Brain)
MUSTER_CONVERSION(float_as_double, float, double)
MUSTER_CONVERSION(double_as_float, double, float)
MUSTER_CONVERSION(double_as_half, double, Half)
MUSTER_CONVERSION(double_as_brain, double, Brain)
#undef MUSTER_CONVERSION

using Conversion = void (*)(const std::byte*, std::byte*, std::size_t);
struct ConversionRow {
  ElementType from, to;
  Conversion convert;
};
const ConversionRow conversions[] = {
    {ElementType::float16, ElementType::float32, half_as_float},
    {ElementType::float16, ElementType::bfloat16, half_as_brain},
    {ElementType::float16, ElementType::float64, half_as_double},
    {ElementType::bfloat16, ElementType::float32, brain_as_float},
    {ElementType::bfloat16, ElementType::float16, brain_as_half},
    {ElementType::bfloat16, ElementType::float64, brain_as_double},
    {ElementType::float32, ElementType::float16, float_as_half},
    {ElementType::float32, ElementType::bfloat16, float_as_brain},
    {ElementType::float32, ElementType::float64, float_as_double},
    {ElementType::float64, ElementType::float32, double_as_float},
    {ElementType::float64, ElementType::float16, double_as_half},
    {ElementType::float64, ElementType::bfloat16, double_as_brain},
};

}  // namespace

bool is_convertible(ElementType type) {
  return type == ElementType::float64 || type == ElementType::float32 || type == ElementType::float16 ||
         type == ElementType::bfloat16;
}

void convert_numbers(ElementType from, std::span<const std::byte> in, ElementType to, std::span<std::byte> out) {
  if (from == to) {
    if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());
    return;
  }
  for (const ConversionRow& row : conversions)
    if (row.from == from && row.to == to)
      row.convert(in.data(), out.data(), in.size() / static_cast<std::size_t>(spec::bytes_per_element(from)));
}

float half_to_float(std::uint16_t half) { return from_half(half); }

}  // namespace muster::checkpoint
