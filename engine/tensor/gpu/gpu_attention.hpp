// Attention on a GPU: torch's, one sequence at a time, and the one of deterministic mode.
#pragma once

#include "tensor/primitives.hpp"

namespace muster::tensor {

at::Tensor library_attention(const AttentionShape& shape, const at::Tensor& queries,
                             std::span<const AttentionSequence> sequences);
AttentionGradient library_attention_gradient(const AttentionShape& shape, const at::Tensor& queries,
                                             std::span<const AttentionSequence> sequences,
                                             const at::Tensor& output_gradient);
at::Tensor fixed_order_attention(const AttentionShape& shape, const at::Tensor& queries,
                                 std::span<const AttentionSequence> sequences);

}  // namespace muster::tensor
