#include "tensor/element_types.hpp"

#include <stdexcept>

namespace muster::tensor {

at::ScalarType to_torch(spec::ElementType type) {
  switch (type) {
    case spec::ElementType::float32:
      return at::kFloat;
    case spec::ElementType::float16:
      return at::kHalf;
    case spec::ElementType::bfloat16:
      return at::kBFloat16;
    default:
      throw std::invalid_argument("no type that models are computed in");
  }
}

spec::ElementType from_torch(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return spec::ElementType::float32;
    case at::kHalf:
      return spec::ElementType::float16;
    case at::kBFloat16:
      return spec::ElementType::bfloat16;
    default:
      throw std::invalid_argument("no type that models are computed in");
  }
}

}  // namespace muster::tensor
