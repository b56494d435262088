#pragma once

#include "tensor/arithmetic.hpp"

namespace muster::tensor {

std::unique_ptr<Primitives> make_gpu_primitives(const ArithmeticWish& wish);
std::unique_ptr<Pointwise> make_gpu_pointwise();
std::unique_ptr<TokenChoice> make_gpu_token_choice();
std::unique_ptr<Learning> make_gpu_learning(bool deterministic);

}  // namespace muster::tensor
