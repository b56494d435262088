#include "communicate/ordered_reduction.hpp"

#include <ATen/ATen.h>

namespace muster::communicate {

at::Tensor reduce_in_order(std::span<const at::Tensor> parts, Reduction reduction) {
  const at::ScalarType type = parts.front().scalar_type();
  const at::ScalarType wide = type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
  at::Tensor result = parts.front().to(wide, /*non_blocking=*/false, /*copy=*/true);
  for (const at::Tensor& part : parts.subspan(1)) {
    if (reduction == Reduction::sum)
      result.add_(part.to(wide));
    else
      result = at::maximum(result, part.to(wide));
  }
  return result.to(type);
}

}  // namespace muster::communicate
