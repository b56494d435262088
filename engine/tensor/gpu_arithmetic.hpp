// The arithmetic of an NVIDIA GPU. Where torch was built without CUDA, one that says so stands in its place.
#pragma once

#include "tensor/arithmetic.hpp"

namespace muster::tensor {

Result<Arithmetic> make_gpu_arithmetic(const ArithmeticWish& wish);

}  // namespace muster::tensor
