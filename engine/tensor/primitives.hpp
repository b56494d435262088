// The two primitives that every number goes through: linear and attention, forward and backward, on one device.
//
// Note [One chain per output]
// Every output is one chain of additions in a fixed order. It does not depend on the rows computed along with it, their
// number, padding, threads or ranks. So a token has the same logits whether it is read in a prompt, decoded alone,
// scored in a batch or trained on. On CPU that always holds; on GPU in deterministic mode.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "spec/model/activation.hpp"
#include "spec/weight_packing.hpp"
#include "tensor/torch.hpp"

namespace muster::tensor {

// How the numbers of a weight are held. What is computed with them does not depend on it: a product has the bits of a
// plain weight of `type` with the same numbers, wherever Note [One chain per output] holds.
struct WeightForm {
  at::ScalarType type = at::kFloat;  // what products with the weight are computed in
  at::ScalarType stored = type;      // plain: what each number is kept as; a 16-bit type may stand for float32
  std::optional<spec::WeightPacking> packing;  // codes and scales; each product of the two is rounded once, to `type`

  WeightForm(at::ScalarType computed) : type(computed) {}  // NOLINT: a type is a form
  WeightForm(at::ScalarType computed, at::ScalarType kept) : type(computed), stored(kept) {}
  WeightForm(at::ScalarType computed, const spec::WeightPacking& codes) : type(computed), packing(codes) {}
};

// A matrix [outputs, inputs] in the form in which its device multiplies by it. The only copy that is kept.
struct Weight {
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  at::ScalarType type = at::kFloat;
  at::Tensor storage;  // CPU: bytes of panels; GPU: [outputs, inputs]. Packed: bytes of codes and scales
  std::optional<spec::WeightPacking> packing = {};  // as in its form
  at::ScalarType stored = type;

  WeightForm form() const { return packing ? WeightForm(type, *packing) : WeightForm(type, stored); }
};

// Rows of a packed weight as files have them, on the host.
struct WeightCodes {
  // 8 bits: int8 [n, inputs]. 4 bits: uint8, flat: two codes a byte, the earlier one in its upper half.
  at::Tensor codes;
  // float32, flat. 8 bits: the largest magnitude of each row. 4 bits: that of each run, of which the first begins with
  // the first row.
  at::Tensor scales;
};

struct AttentionShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  double scale = 1;
  std::optional<std::int64_t> window;  // a query sees this many keys, its own among them
};

// One sequence's part of a batch: consecutive rows, at consecutive positions. Query i sees the keys of the positions up
// to its own.
struct AttentionPart {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::int64_t position = 0;  // of the first row
  // Its cache blocks: position p is in blocks[p / block_tokens]. Empty: position is 0, and the keys are the part's own
  // rows.
  std::vector<std::int64_t> blocks;
};

// Where the rows of a batch find their keys. Made once for a pass and read by each of its layers. What a device reads
// lies on it, int64.
struct AttentionTables {
  std::vector<AttentionPart> parts;
  std::int64_t block_tokens = 0;
  at::Tensor positions;      // [rows]
  at::Tensor slots;          // [rows]: where a row's key goes: block * block_tokens + place in it; undefined: nowhere
  at::Tensor single_rows;    // [n]: rows that are their sequence's only one and have a cache
  at::Tensor single_blocks;  // [n, most blocks of one of them]: their blocks
};

// The keys and values of one layer; undefined tensors where nothing is kept.
struct LayerCache {
  at::Tensor keys;    // [blocks, block_tokens, kv_heads, head_size]
  at::Tensor values;  // the same
};

struct HeadRows {
  at::Tensor queries;  // [rows, heads * head_size]
  at::Tensor keys;     // [rows, kv_heads * head_size]
  at::Tensor values;
};
using AttentionGradient = HeadRows;

class Primitives {
 public:
  virtual ~Primitives() = default;

  // Whether the device has weights of this form; new_weight throws std::logic_error for others.
  virtual bool has_form(const WeightForm& form) const { return !form.packing && form.stored == form.type; }
  virtual Weight new_weight(std::int64_t outputs, std::int64_t inputs, const WeightForm& form) = 0;
  // rows: [n, inputs] on the host, of the weight's stored type, or for a packed one of any; they become rows first_row
  // to first_row + n - 1. Several threads may fill different rows; multiples of row_alignment are fastest. A packed
  // weight takes the first row for the beginning of a run: a tensor that is given in parts is cut at multiples of
  // rows_between_cuts(), counted from its own first row.
  virtual void fill_rows(Weight& weight, std::int64_t first_row, const at::Tensor& rows) = 0;
  static constexpr std::int64_t row_alignment = 256;
  static std::int64_t rows_between_cuts(const Weight& weight);
  // The same of rows whose codes are known. Throws std::invalid_argument where codes and scales do not fit each other.
  virtual void fill_codes(Weight& weight, std::int64_t first_row, const WeightCodes& rows);
  // For a weight with double_quantized, when all rows of one tensor have been filled by fill_rows: their scales become
  // what is left of them in 8 bits. Nothing for other weights.
  virtual void round_scales(Weight& weight, std::int64_t first_row, std::int64_t rows);
  // [n, inputs]: the embedding of tokens. indices: int64, on the device.
  virtual at::Tensor take_rows(const Weight& weight, const at::Tensor& indices) = 0;

  // [rows, inputs], of the weight's type: what its rows first_row to first_row + rows - 1 stand for. It may be a view.
  virtual at::Tensor numbers(const Weight& weight, std::int64_t first_row, std::int64_t rows);

  // input: [rows, inputs] → [rows, outputs]. bias: [outputs] or undefined.
  virtual at::Tensor linear(const Weight& weight, const at::Tensor& bias, const at::Tensor& input) = 0;
  // activation(first half of linear's outputs) * the second, in one; undefined where the device has no such kernel.
  virtual at::Tensor gated_linear(spec::Activation activation, const Weight& weight, const at::Tensor& bias,
                                  const at::Tensor& input) {
    (void)activation, (void)weight, (void)bias, (void)input;
    return {};
  }
  // sum: [rows, outputs], perhaps some columns of a wider matrix, becomes base + the product. base: the same, and may
  // be sum.
  virtual void linear_add(const Weight& weight, const at::Tensor& bias, const at::Tensor& input, const at::Tensor& base,
                          at::Tensor& sum) = 0;
  // output_gradient: [rows, outputs] → [rows, inputs]. The weight's own gradient is TrainingOps::add_product.
  virtual at::Tensor linear_input_gradient(const Weight& weight, const at::Tensor& output_gradient) = 0;
  // The same, added to gradient.
  virtual void add_input_gradient(const Weight& weight, const at::Tensor& output_gradient, at::Tensor& gradient) {
    gradient.add_(linear_input_gradient(weight, output_gradient));
  }

  // heads: the batch's rows; what the cache is to have of them is in it already. Returns [rows, heads * head_size].
  // log_sums, where wanted: what attention_gradient needs.
  virtual at::Tensor attention(const AttentionShape& shape, const AttentionTables& tables, const HeadRows& heads,
                               const LayerCache& cache, at::Tensor* log_sums) = 0;
  // For parts that have no cache. The three may lie side by side in one matrix (tensor/side_by_side.hpp).
  virtual AttentionGradient attention_gradient(const AttentionShape& shape, const AttentionTables& tables,
                                               const HeadRows& heads, const at::Tensor& output,
                                               const at::Tensor& log_sums, const at::Tensor& output_gradient) = 0;
};

}  // namespace muster::tensor
