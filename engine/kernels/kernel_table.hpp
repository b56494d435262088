// The parts of the kernels that are compiled once per vector set. Inside this layer only.
#pragma once

#include <cstdint>

#include "kernels/attention_job.hpp"
#include "kernels/coded/coded_adamw_job.hpp"
#include "kernels/coded/coded_panels.hpp"
#include "kernels/exact_product.hpp"
#include "kernels/optimizer_job.hpp"
#include "kernels/packing.hpp"
#include "kernels/pointwise_job.hpp"
#include "kernels/product.hpp"
#include "kernels/row_jobs.hpp"
#include "kernels/vector_set.hpp"

namespace muster::kernels {

struct KernelTable {
  void (*pack_panels)(const PackingJob&, std::int64_t, std::int64_t);
  void (*unpack_panels)(const PackingJob&, std::int64_t, std::int64_t);
  void (*code_runs)(const CodingJob&, std::int64_t, std::int64_t);
  void (*pack_left)(const LeftSide&, std::int64_t, std::int64_t);
  void (*pack_right)(const ProductJob&, float*, std::int64_t, std::int64_t);
  void (*multiply)(const ProductJob&, std::int64_t, std::int64_t);
  void (*pack_exact_left)(const ExactProductJob&, std::int64_t, std::int64_t);
  void (*multiply_exactly)(const ExactProductJob&, std::int64_t, std::int64_t);
  void (*attend)(const AttentionJob&, std::int64_t, std::int64_t);
  void (*sum_attention_rows)(const AttentionGradientJob&, std::int64_t, std::int64_t);
  void (*attend_queries_back)(const AttentionGradientJob&, std::int64_t, std::int64_t);
  void (*attend_keys_back)(const AttentionGradientJob&, std::int64_t, std::int64_t);
  void (*apply_pointwise)(const PointwiseJob&, std::int64_t, std::int64_t);
  void (*normalize)(const NormalizeJob&, std::int64_t, std::int64_t);
  void (*normalize_back)(const NormalizeJob&, std::int64_t, std::int64_t);
  void (*sum_columns)(const ColumnSumJob&, std::int64_t, std::int64_t);
  void (*scatter_rows)(const RowScatterJob&, std::int64_t, std::int64_t);
  void (*rotate)(const RotateJob&, std::int64_t, std::int64_t);
  void (*reduce_logits)(const LogitsJob&, std::int64_t, std::int64_t);
  void (*weigh_logits)(const WeighJob&, std::int64_t, std::int64_t);
  void (*adamw)(const AdamWJob&, std::int64_t, std::int64_t);
  void (*coded_adamw)(const CodedAdamWJob&, std::int64_t, std::int64_t);
  void (*sgd)(const SgdJob&, std::int64_t, std::int64_t);
  void (*sum_squares)(const SquaresJob&, std::int64_t, std::int64_t);
};

const KernelTable& kernel_table(VectorSet set);

extern const KernelTable portable_kernels;
extern const KernelTable avx2_kernels;
extern const KernelTable avx512_kernels;

}  // namespace muster::kernels
