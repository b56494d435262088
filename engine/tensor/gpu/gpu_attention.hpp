// Attention on a GPU: torch's for prompts, muster's own for single rows and for deterministic mode.
#pragma once

#include "spec/values.hpp"
#include "tensor/primitives.hpp"

namespace muster::tensor {

class GpuAttention {
 public:
  explicit GpuAttention(spec::Attention wish) : wish_(wish) {}

  at::Tensor forward(const AttentionShape& shape, const AttentionTables& tables, const HeadRows& heads,
                     const LayerCache& cache);

 private:
  bool has_packed(const AttentionShape& shape, at::ScalarType type) const;
  bool has_single(const AttentionShape& shape) const;
  // Rows that are alone in their sequence, all at once.
  void single_rows(const AttentionShape& shape, const AttentionTables& tables, const HeadRows& heads,
                   const LayerCache& cache, at::Tensor& output);
  // Whole sequences from position 0 on, all at once.
  void packed_parts(const AttentionShape& shape, const std::vector<AttentionPart>& parts, const HeadRows& heads,
                    at::Tensor& output) const;

  spec::Attention wish_;
  // The last one is used, 0 between calls. Steps that were recorded with an earlier one go on with that.
  std::vector<at::Tensor> counters_;
};

AttentionGradient library_attention_gradient(const AttentionShape& shape, const AttentionTables& tables,
                                             const HeadRows& heads, const at::Tensor& output_gradient);
at::Tensor fixed_order_attention(const AttentionShape& shape, const AttentionTables& tables, const HeadRows& heads,
                                 const LayerCache& cache);

}  // namespace muster::tensor
