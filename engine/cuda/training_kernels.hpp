// What only training computes on NVIDIA GPUs, as device_kernels.hpp: raw device pointers, no torch.
#pragma once

#include "cuda/device_kernels.hpp"

namespace muster::cuda {

// What terms are added to: kernels/sum.hpp. All null: not wanted.
struct Sum {
  float* values = nullptr;
  void* rounded = nullptr;  // of bfloat16
  std::int64_t* multiples = nullptr;
  std::int64_t* overflow = nullptr;

  bool is_wanted() const { return values != nullptr || rounded != nullptr || multiples != nullptr; }
};

// multiples[count] += values, each of them a term.
LaunchError add_exactly(Stream stream, const float* values, std::int64_t count, const Sum& sum);
// multiples[width] += the rows of values [rows, width], each row a term.
LaunchError add_rows_exactly(Stream stream, Scalar scalar, const void* values, std::int64_t rows, std::int64_t width,
                             const Sum& sum);
// sum[indices[i]] += values[i], of a float32 or exact sum. An exact one has the same bits every time; a float32 one
// takes rows of one index in any order. An index outside the sum's rows is left out.
LaunchError add_rows_at(Stream stream, Scalar scalar, const void* values, const std::int64_t* indices,
                        std::int64_t rows, std::int64_t width, std::int64_t sum_rows, const Sum& sum);

// The same for a bfloat16 sum: the rows of one index are one term, added up in float32 in an order that depends on
// nothing but the indices. order: the rows sorted by index; sorted[i] is the index of row order[i]. terms: room for
// sorted_row_terms numbers.
std::int64_t sorted_row_terms(std::int64_t rows, std::int64_t width);
LaunchError add_sorted_rows(Stream stream, Scalar scalar, const void* values, const std::int64_t* sorted,
                            const std::int64_t* order, std::int64_t rows, std::int64_t width, std::int64_t sum_rows,
                            float* terms, const Sum& sum);

// Gradients of rms_norm and layer_norm. Each row's is computed separately; the sums take the rows in an order that
// depends on their number alone, or as exact terms.
struct NormGradient {
  const void* input = nullptr;            // [rows, width]
  const void* weight = nullptr;           // [width]
  const void* output_gradient = nullptr;  // [rows, width]
  const void* residual = nullptr;         // [rows, width], is added to the input's gradient; absent: nothing
  void* input_gradient = nullptr;         // [rows, width]
  float epsilon = 0;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  bool centered = false;  // layer_norm
  Sum weight_sum;
  Sum bias_sum;              // of layer_norm; of weight_sum's kind
  float* scratch = nullptr;  // for sums that are not exact: norm_gradient_scratch of them
};
std::int64_t norm_gradient_scratch(std::int64_t rows, std::int64_t width);
LaunchError norm_gradient(Stream stream, Scalar scalar, const NormGradient& job);

// The gradient of gated_silu. output_gradient: [rows, width], contiguous, and then the output itself; gradient:
// [rows, 2 * width], the gate's first.
LaunchError gated_silu_gradient(Stream stream, Scalar scalar, const void* gate, const void* up, std::int64_t stride,
                                std::int64_t rows, std::int64_t width, void* output_gradient, void* gradient);

// input, output: [rows, heads, head_size]; cosines, sines: [rows, head_size / 2]. Rounded as torch's separate
// operations are.
LaunchError rotate(Stream stream, Scalar scalar, const void* input, const float* cosines, const float* sines,
                   std::int64_t rows, std::int64_t heads, std::int64_t head_size, void* output);

// Gradients of what split_heads gave where it norms nothing: the rotation is undone. All are aligned to 16 bytes.
struct HeadGradients {
  const void* queries = nullptr;   // [rows, heads * head_size]
  const void* keys = nullptr;      // [rows, kv_heads * head_size]
  const void* values = nullptr;    // [rows, kv_heads * head_size]
  const float* cosines = nullptr;  // [rows, head_size / 2]
  const float* sines = nullptr;
};
bool has_joined_gradients(Scalar scalar, const AttentionShape& shape, std::int64_t rows);
LaunchError join_gradients(Stream stream, Scalar scalar, const AttentionShape& shape, const HeadGradients& from,
                           std::int64_t rows, void* joined);

// losses [rows]: of the softmax of logits / temperature; those of choose_tokens, negated, to the last bit where they are
// wanted as scored. logits [rows, width] become the gradient of Σ weights[row] · losses[row]; weights: nullptr: they
// stay. A target outside the vocabulary has a loss that is not a number.
LaunchError cross_entropy(Stream stream, Scalar scalar, void* logits, const std::int64_t* targets, std::int64_t rows,
                          std::int64_t width, const float* weights, float temperature, bool as_scored,
                          float* losses);
// The same, as scored, with Σ entropy_weights[row] · entropies[row] less in what the gradient is of.
LaunchError cross_entropy(Stream stream, Scalar scalar, void* logits, const std::int64_t* targets, std::int64_t rows,
                          std::int64_t width, const float* weights, const float* entropy_weights, float temperature,
                          float* losses, float* entropies);

// The rule in numbers that do not change from element to element: kernels/optimizer_job.hpp says what each is.
struct AdamW {
  float gradient_scale = 1;
  double multiple = 0x1p-44;  // what 1 of an exact sum stands for, times the scale
  float kept = 1;
  float first_share = 0;
  float beta2 = 0;
  float second_share = 0;
  float second_root = 1;
  float epsilon = 0;
  float step_size = 0;
};
// The three are bfloat16 where the gradient is, else float32.
LaunchError adamw(Stream stream, const AdamW& rule, const Sum& gradient, std::int64_t count, void* parameter,
                  void* first_moment, void* second_moment);

// A map of 8-bit codes, on the device: kernels/coded/dynamic_map.hpp.
struct CodeMap {
  const float* values = nullptr;   // [256]
  const float* middles = nullptr;  // [256]
};
// As kernels/optimizer.hpp has it.
struct CodedMoment {
  CodeMap map;
  std::uint8_t* codes = nullptr;
  float* scales = nullptr;
};
// The parameter is bfloat16 where the gradient is, else float32.
LaunchError adamw(Stream stream, const AdamW& rule, const Sum& gradient, std::int64_t count, void* parameter,
                  const CodedMoment& first_moment, const CodedMoment& second_moment);

struct Sgd {
  float gradient_scale = 1;
  double multiple = 0x1p-44;
  float rate = 0;
  float momentum = 0;
  float decay = 0;
  bool first = false;
};
// As adamw. momentum: null where there is none.
LaunchError sgd(Stream stream, const Sgd& rule, const Sum& gradient, std::int64_t count, void* parameter,
                void* momentum);

// Σ value² of each 256 values in float64: square_block_count of them.
std::int64_t square_block_count(std::int64_t count);
LaunchError square_blocks(Stream stream, const Sum& sum, std::int64_t count, double* blocks);
// result[1]: their sum, in an order that depends on count alone.
LaunchError join_blocks(Stream stream, const double* blocks, std::int64_t count, double* result);

}  // namespace muster::cuda
