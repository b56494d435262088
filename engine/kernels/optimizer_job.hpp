// What threads share of a step of the optimizer. Inside this layer only.
#pragma once

#include <cstdint>

#include "kernels/sum.hpp"

namespace muster::kernels {

constexpr std::int64_t squares_block = 256;

// A sum's values as gradients.
struct GradientSource {
  Sum sum;
  float scale = 1.0F;         // of a sum that is not exact
  double multiple = 0x1p-44;  // of an exact one: what 1 stands for
};

// The rule in numbers that do not change from element to element.
struct AdamWJob {
  GradientSource gradient;
  std::int64_t count = 0;
  Scalar state = Scalar::float32;  // how the three are stored: float32 or bfloat16
  void* parameter = nullptr;
  void* first_moment = nullptr;
  void* second_moment = nullptr;
  float kept = 1.0F;         // of the parameter: 1 - rate · decay
  float first_share = 0.0F;  // 1 - beta1
  float beta2 = 0.0F;
  float second_share = 0.0F;  // 1 - beta2
  float second_root = 1.0F;   // √(1 - beta2^step)
  float epsilon = 0.0F;
  float step_size = 0.0F;  // rate / (1 - beta1^step)
};

struct SgdJob {
  GradientSource gradient;
  std::int64_t count = 0;
  Scalar state = Scalar::float32;  // how both are stored: float32 or bfloat16
  void* parameter = nullptr;
  void* momentum = nullptr;
  float rate = 0.0F;
  float kept_momentum = 0.0F;
  float decay = 0.0F;
  bool first = false;
};

struct SquaresJob {
  Sum sum;
  std::int64_t count = 0;
  double* blocks = nullptr;
};

}  // namespace muster::kernels
