#include "spec/element_type.hpp"

namespace muster::spec {

std::string_view name(ElementType type) {
  switch (type) {
    case ElementType::float64:
      return "float64";
    case ElementType::float32:
      return "float32";
    case ElementType::float16:
      return "float16";
    case ElementType::bfloat16:
      return "bfloat16";
    case ElementType::float8:
      return "float8";
    case ElementType::float8_e5m2:
      return "float8_e5m2";
    case ElementType::float8_e8m0:
      return "float8_e8m0";
    case ElementType::int64:
      return "int64";
    case ElementType::int32:
      return "int32";
    case ElementType::int16:
      return "int16";
    case ElementType::int8:
      return "int8";
    case ElementType::uint8:
      return "uint8";
    case ElementType::boolean:
      return "bool";
  }
  return {};
}

}  // namespace muster::spec
