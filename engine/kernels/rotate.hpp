// Rotary position embedding.
#pragma once

#include <cstdint>

#include "kernels/scalar.hpp"
#include "kernels/thread_team.hpp"

namespace muster::kernels {

// Heads [rows, heads, head_size], rows row_stride elements apart, each rotated: element i of the first half with
// element i of the second, by the angle of column i. In place, unless they come from elsewhere.
struct Rotation {
  void* values = nullptr;
  Scalar io = Scalar::float32;
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t head_size = 0;
  std::int64_t row_stride = 0;
  // [rows, head_size / 2]; rounded to io before use, as transformers does. Null: heads are only copied, not rotated.
  const float* cosines = nullptr;
  const float* sines = nullptr;
  const void* source = nullptr;  // null: values
  std::int64_t source_stride = 0;
};

void rotate(ThreadTeam& team, const Rotation& rotation);
// The other way round: what rotate's gradient needs.
void rotate_back(ThreadTeam& team, const Rotation& rotation);

}  // namespace muster::kernels
