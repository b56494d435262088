// Every kernel for one kind of lanes. Included once per vector set.
#pragma once

#include "kernels/attention_gradient_kernels.hpp"
#include "kernels/attention_kernels.hpp"
#include "kernels/coded/coded_adamw_kernels.hpp"
#include "kernels/coded/coding_kernels.hpp"
#include "kernels/exact_product_kernels.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/logits_kernels.hpp"
#include "kernels/normalize_kernels.hpp"
#include "kernels/optimizer_kernels.hpp"
#include "kernels/packing_kernels.hpp"
#include "kernels/pointwise_kernels.hpp"
#include "kernels/product_kernels.hpp"
#include "kernels/rotate_kernels.hpp"
#include "kernels/row_sum_kernels.hpp"

namespace muster::kernels {

template <class L>
constexpr KernelTable kernel_table_of() {
  return {
      .pack_panels = &PackingKernels<L>::pack_panels,
      .unpack_panels = &PackingKernels<L>::unpack_panels,
      .code_runs = &CodingKernels<L>::code_runs,
      .pack_left = &ProductKernels<L>::pack_left,
      .pack_right = &ProductKernels<L>::pack_right,
      .multiply = &ProductKernels<L>::multiply,
      .pack_exact_left = &ExactProductKernels<L>::pack_left,
      .multiply_exactly = &ExactProductKernels<L>::multiply,
      .attend = &AttentionKernels<L>::attend,
      .sum_attention_rows = &AttentionGradientKernels<L>::sum_rows,
      .attend_queries_back = &AttentionGradientKernels<L>::attend_queries_back,
      .attend_keys_back = &AttentionGradientKernels<L>::attend_keys_back,
      .apply_pointwise = &PointwiseKernels<L>::apply,
      .normalize = &NormalizeKernels<L>::normalize,
      .normalize_back = &NormalizeKernels<L>::normalize_back,
      .sum_columns = &RowSumKernels<L>::sum_columns,
      .scatter_rows = &RowSumKernels<L>::scatter_rows,
      .rotate = &rotate_rows<L>,
      .reduce_logits = &LogitsKernels<L>::reduce,
      .weigh_logits = &LogitsKernels<L>::weigh,
      .adamw = &OptimizerKernels<L>::adamw,
      .coded_adamw = &CodedAdamWKernels<L>::step,
      .sgd = &OptimizerKernels<L>::sgd,
      .sum_squares = &OptimizerKernels<L>::sum_squares,
  };
}

}  // namespace muster::kernels
