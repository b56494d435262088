// Element types: muster's names and torch's.
#pragma once

#include "spec/element_type.hpp"
#include "tensor/torch.hpp"

namespace muster::tensor {

// float32, float16, bfloat16: those that models are computed in. Any other is a bug and throws.
at::ScalarType to_torch(spec::ElementType type);
spec::ElementType from_torch(at::ScalarType type);

}  // namespace muster::tensor
