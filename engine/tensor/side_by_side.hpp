// Matrices with the same rows as one.
#pragma once

#include <vector>

#include "tensor/torch.hpp"

namespace muster::tensor {

// [rows, the sum of the widths]. Those that lie side by side in one matrix already are not copied.
inline at::Tensor side_by_side(const std::vector<at::Tensor>& parts) {
  const at::Tensor& first = parts.at(0);
  std::int64_t width = 0;
  bool adjacent = true;
  for (const at::Tensor& part : parts) {
    adjacent = adjacent && part.is_alias_of(first) && part.stride(1) == 1 && part.stride(0) == first.stride(0) &&
               part.storage_offset() == first.storage_offset() + width;
    width += part.size(1);
  }
  if (!adjacent || first.stride(0) < width) return at::cat(parts, 1);
  return first.as_strided({first.size(0), width}, {first.stride(0), 1});
}

}  // namespace muster::tensor
