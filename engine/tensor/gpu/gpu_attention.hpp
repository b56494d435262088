// Attention on a GPU: torch's for prompts and training, muster's own for single rows and for deterministic mode.
#pragma once

#include <map>
#include <optional>

#include "spec/values.hpp"
#include "tensor/primitives.hpp"

namespace muster::tensor {

class GpuAttention {
 public:
  explicit GpuAttention(spec::Attention attention) : attention_(attention) {}

  // log_sums, where wanted: [heads, rows], float32, or as cuDNN has them, [sequences, heads, rows of each, 1];
  // undefined where backward has to do without them.
  at::Tensor forward(const AttentionShape& shape, const AttentionTables& tables, const HeadRows& heads,
                     const LayerCache& cache, at::Tensor* log_sums);
  // Deterministic: each sequence by itself, in a fixed order.
  AttentionGradient backward(const AttentionShape& shape, const AttentionTables& tables, const HeadRows& heads,
                             const at::Tensor& output, const at::Tensor& log_sums, const at::Tensor& output_gradient,
                             bool deterministic);

 private:
  bool has_packed(const AttentionShape& shape, at::ScalarType type) const;
  bool has_single(const AttentionShape& shape) const;
  // Rows that are alone in their sequence, all at once.
  void single_rows(const AttentionShape& shape, const AttentionTables& tables, const HeadRows& heads,
                   const LayerCache& cache, at::Tensor& output);
  // Whole sequences from position 0 on, all at once.
  void packed_parts(const AttentionShape& shape, const std::vector<AttentionPart>& parts, const HeadRows& heads,
                    at::Tensor& output, at::Tensor* log_sums);
  // Note [When cuDNN attends]
  // On Hopper cuDNN's kernels take about half the time of torch's packed ones. They want sequences of one length, and
  // are made again for each length and number of them, which takes longer than a step: the first few layouts that have
  // come often enough are left to them.
  bool cudnn_takes(const AttentionShape& shape, const std::vector<AttentionPart>& parts, const at::Tensor& queries);
  // Both return nothing where cuDNN declines.
  bool cudnn_parts(const AttentionShape& shape, std::int64_t sequences, const HeadRows& heads, at::Tensor& output,
                   at::Tensor& log_sums);
  std::optional<AttentionGradient> cudnn_backward(const AttentionShape& shape, const HeadRows& heads,
                                                  const at::Tensor& output, const at::Tensor& log_sums,
                                                  const at::Tensor& output_gradient);
  // Where the sequences of these parts begin, and the last one ends: int32 on the device. Kept for the next layer.
  at::Tensor begins_of(const std::vector<AttentionPart>& parts, at::Device device);

  spec::Attention attention_;
  bool cudnn_refuses_ = false;
  int cudnn_layouts_ = 0;                                              // that came often
  std::map<std::pair<std::int64_t, std::int64_t>, int> layouts_seen_;  // of sequences and rows of each
  std::vector<std::int32_t> known_begins_;
  at::Tensor begins_;
  // The last one is used, 0 between calls. Steps that were recorded with an earlier one keep using that.
  std::vector<at::Tensor> counters_;
};

// log_sums: null where they are not wanted.
at::Tensor fixed_order_attention(const AttentionShape& shape, const AttentionTables& tables, const HeadRows& heads,
                                 const LayerCache& cache, at::Tensor* log_sums);

}  // namespace muster::tensor
