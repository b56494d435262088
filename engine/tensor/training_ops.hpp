// What only training computes, on one device: sums of gradients, the loss of tokens, steps of the optimizer.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/gradient_sum.hpp"
#include "tensor/primitives.hpp"

namespace muster::tensor {

// p ← p·(1 − rate·decay); m ← β₁m + (1 − β₁)g; v ← β₂v + (1 − β₂)g²; p ← p − rate/c₁ · m / (√v/√c₂ + ε), where
// cᵢ = 1 − βᵢ^step: torch.optim.AdamW's numbers.
struct AdamWStep {
  double rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double decay = 0;
  std::int64_t step = 1;      // from 1
  double gradient_scale = 1;  // g is the sum (an exact one as the number it stands for) times this
};

// g ← g + decay·p; b ← momentum·b + g; p ← p − rate·b: torch.optim.SGD's numbers. In the first step b is g.
struct SgdStep {
  double rate = 0;
  double momentum = 0;  // 0: there is no b
  double decay = 0;
  bool first = false;
  double gradient_scale = 1;
};

// A moment of AdamW in 8 bits: elements in blocks of 256 from the first one on, the last block may be shorter. Codes
// are those of bitsandbytes: places in its signed map for the first moment, in its unsigned one for the second.
inline constexpr std::int64_t coded_moment_block = 256;
struct CodedMoment {
  at::Tensor codes;   // uint8, one for each element: which share of its block's scale it is
  at::Tensor scales;  // float32, one for each block: its largest magnitude
};

class TrainingOps {
 public:
  virtual ~TrainingOps() = default;

  // The sum is 0; what has overflowed stays.
  virtual void clear(const GradientSum& sum) { sum.values.zero_(); }

  // sum [outputs, inputs] += output_gradientᵀ · input. sequence_rows: how many rows each sequence has, in order; all of
  // them together are the rows. An exact sum takes the chain over one sequence's rows as one term.
  virtual void add_product(const GradientSum& sum, const at::Tensor& output_gradient, const at::Tensor& input,
                           std::span<const std::int64_t> sequence_rows) = 0;
  // sum [width] += the rows of gradient [rows, width].
  virtual void add_rows(const GradientSum& sum, const at::Tensor& gradient) = 0;
  // sum[indices[i]] += gradient[i]; sum: [n, width].
  virtual void add_rows_at(const GradientSum& sum, const at::Tensor& indices, const at::Tensor& gradient) = 0;
  // Σ value² of each 256 values, an exact sum's as the numbers they stand for: float64 [n], on the device.
  virtual at::Tensor square_blocks(const GradientSum& sum) = 0;
  // Over all blocks: float64 [1]. On CPU they are added one after another, on GPU in an order that depends on their
  // number alone. A sum that does not depend on how a parameter is cut is exact_squares() (tensor/exact_squares.hpp).
  virtual at::Tensor squared_sum(const GradientSum& sum) = 0;

  // logits: [rows, vocabulary], replaced by the gradient of Σ weights[row] · loss[row]. targets: [rows], int64.
  // weights: [rows], float32 on the device. Returns the losses, −ln of the probability of each target of the softmax of
  // logits / temperature: [rows], float32; the numbers that scoring gives.
  virtual at::Tensor cross_entropy(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights,
                                   double temperature) = 0;
  // The same with Σ entropy_weights[row] · entropy[row] less, the entropy being that of the softmax, in nats.
  struct LossAndEntropy {
    at::Tensor losses, entropies;  // [rows], float32
  };
  virtual LossAndEntropy cross_entropy(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights,
                                       const at::Tensor& entropy_weights, double temperature) = 0;
  // The losses alone, the same bits; the logits stay.
  virtual at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, double temperature) = 0;

  // Contiguous and of one size; all float32, or all bfloat16 with the sum: computed in float32, each number rounded
  // when it is stored. Element by element, so that it does not matter how a parameter is cut.
  virtual void adamw(const at::Tensor& parameter, const at::Tensor& first_moment, const at::Tensor& second_moment,
                     const GradientSum& gradient, const AdamWStep& step) = 0;
  // The same rule from moments as their codes have them; the parameter is stepped by the new ones as they were
  // computed, and each is coded as the nearest of its block's (a tie as the lower). A parameter that is cut between
  // blocks has the same bits.
  virtual void adamw(const at::Tensor& parameter, const CodedMoment& first_moment, const CodedMoment& second_moment,
                     const GradientSum& gradient, const AdamWStep& step) = 0;
  // momentum: undefined where step.momentum is 0.
  virtual void sgd(const at::Tensor& parameter, const at::Tensor& momentum, const GradientSum& gradient,
                   const SgdStep& step) = 0;
  // values: [outputs, inputs] on the device, float32 or of the weight's type. The weight takes these numbers, rounded
  // to its type.
  virtual void assign(const Weight& weight, const at::Tensor& values) = 0;

  // ---- weights that come and go ----

  // Whether a weight lies in memory as its values do, so that adopt() need not copy.
  virtual bool has_plain_weights() const = 0;
  // As assign(), for a weight without memory, with values of its own type. A plain one then shares their memory.
  virtual void adopt(const Weight& weight, const at::Tensor& values) = 0;
  // Lets go of its memory; it has no numbers until the next adopt().
  static void release(const Weight& weight) {
    at::Tensor storage = weight.storage;
    storage.set_(at::empty({0}, storage.options()));
  }
};

}  // namespace muster::tensor
