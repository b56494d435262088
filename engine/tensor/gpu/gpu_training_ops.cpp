#include <algorithm>
#include <cmath>

#include "kernels/coded/dynamic_map.hpp"
#include "tensor/gpu/gpu_primitives.hpp"
#include "tensor/gpu/gpu_scalar.hpp"
#include "tensor/gpu/gpu_sum.hpp"
#include "tensor/optimizer_state.hpp"

namespace muster::tensor {
namespace {

// [2, 2, 256]: of the signed map and the unsigned one the values, and the middles between them.
at::Tensor code_maps() {
  constexpr std::int64_t codes = 256;
  at::Tensor maps = at::empty({2, 2, codes}, at::kFloat);
  auto* numbers = maps.mutable_data_ptr<float>();
  for (const kernels::DynamicMap* map : {&kernels::signed_map(), &kernels::unsigned_map()})
    for (const float* row : {map->values, map->middles}) numbers = std::copy_n(row, codes, numbers);
  return maps;
}

// Where a matrix begins must not change the library's choice of a kernel: Note [Rows of deterministic products].
at::Tensor well_placed(const at::Tensor& rows) {
  constexpr std::uintptr_t line = 256;
  return reinterpret_cast<std::uintptr_t>(rows.const_data_ptr()) % line == 0 ? rows : rows.clone();
}

class GpuTrainingOps final : public TrainingOps {
 public:
  explicit GpuTrainingOps(bool deterministic) : deterministic_(deterministic) {}

  void add_product(const GradientSum& sum, const at::Tensor& output_gradient, const at::Tensor& input,
                   std::span<const std::int64_t> sequence_rows) override {
    if (input.size(0) == 0) return;
    if (!sum.exact()) return add_whole_product(sum.values, output_gradient.t(), input);
    const at::Tensor from = output_gradient.contiguous(), rows = input.contiguous();
    at::Tensor product = at::empty(sum.values.sizes(), sum.values.options().dtype(at::kFloat));
    std::int64_t first = 0;
    for (const std::int64_t count : sequence_rows) {
      if (count == 0) continue;
      multiply(product, well_placed(from.narrow(0, first, count)).t(), well_placed(rows.narrow(0, first, count)));
      check_launch(cuda::add_exactly(current_stream(product), product.const_data_ptr<float>(), product.numel(),
                                     kernel_sum(sum)));
      first += count;
    }
  }

  void add_rows(const GradientSum& sum, const at::Tensor& gradient) override {
    if (!sum.exact()) {
      at::Tensor values = sum.values;
      values.add_(gradient.sum(0, false, at::kFloat));
      return;
    }
    const at::Tensor rows = gradient.contiguous();
    check_launch(cuda::add_rows_exactly(current_stream(rows), scalar_of(rows), rows.const_data_ptr(), rows.size(0),
                                        rows.size(1), kernel_sum(sum)));
  }

  void add_rows_at(const GradientSum& sum, const at::Tensor& indices, const at::Tensor& gradient) override {
    if (sum.values.scalar_type() == at::kFloat && deterministic_) {  // sorted by index first
      at::Tensor values = sum.values;
      values.index_put_({indices}, gradient.to(at::kFloat), true);
      return;
    }
    const at::Tensor rows = gradient.contiguous(), places = indices.contiguous();
    if (sum.values.scalar_type() == at::kBFloat16) {
      const auto [sorted, order] = at::sort(places, /*stable=*/true, /*dim=*/0, /*descending=*/false);
      at::Tensor terms =
          at::empty({cuda::sorted_row_terms(rows.size(0), rows.size(1))}, rows.options().dtype(at::kFloat));
      check_launch(cuda::add_sorted_rows(current_stream(rows), scalar_of(rows), rows.const_data_ptr(),
                                         sorted.const_data_ptr<std::int64_t>(), order.const_data_ptr<std::int64_t>(),
                                         rows.size(0), rows.size(1), sum.values.size(0),
                                         terms.mutable_data_ptr<float>(), kernel_sum(sum)));
      return;
    }
    check_launch(cuda::add_rows_at(current_stream(rows), scalar_of(rows), rows.const_data_ptr(),
                                   places.const_data_ptr<std::int64_t>(), rows.size(0), rows.size(1),
                                   sum.values.size(0), kernel_sum(sum)));
  }

  at::Tensor square_blocks(const GradientSum& sum) override {
    const std::int64_t count = sum.values.numel();
    const auto options = sum.values.options().dtype(at::kDouble);
    at::Tensor blocks = at::empty({cuda::square_block_count(count)}, options);
    check_launch(
        cuda::square_blocks(current_stream(blocks), kernel_sum(sum), count, blocks.mutable_data_ptr<double>()));
    return blocks;
  }

  at::Tensor squared_sum(const GradientSum& sum) override {
    const at::Tensor blocks = square_blocks(sum);
    at::Tensor result = at::empty({1}, blocks.options());
    check_launch(cuda::join_blocks(current_stream(result), blocks.const_data_ptr<double>(), blocks.numel(),
                                   result.mutable_data_ptr<double>()));
    return result;
  }

  at::Tensor cross_entropy(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights,
                           double temperature) override {
    logits = logits.contiguous();
    const at::Tensor factors = weights.contiguous();
    return cross_entropy(logits, logits.mutable_data_ptr(), targets, factors.const_data_ptr<float>(), temperature);
  }

  LossAndEntropy cross_entropy(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights,
                               const at::Tensor& entropy_weights, double temperature) override {
    const at::Tensor tokens = targets.contiguous(), factors = weights.contiguous(),
                     entropy_factors = entropy_weights.contiguous();
    logits = logits.contiguous();
    const auto options = logits.options().dtype(at::kFloat);
    LossAndEntropy found{at::empty({logits.size(0)}, options), at::empty({logits.size(0)}, options)};
    check_launch(cuda::cross_entropy(current_stream(logits), scalar_of(logits), logits.mutable_data_ptr(),
                                     tokens.const_data_ptr<std::int64_t>(), logits.size(0), logits.size(1),
                                     factors.const_data_ptr<float>(), entropy_factors.const_data_ptr<float>(),
                                     static_cast<float>(temperature), found.losses.mutable_data_ptr<float>(),
                                     found.entropies.mutable_data_ptr<float>()));
    return found;
  }

  at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, double temperature) override {
    const at::Tensor values = logits.contiguous();
    return cross_entropy(values, values.data_ptr(), targets, nullptr, temperature);
  }

  void adamw(const at::Tensor& parameter, const at::Tensor& first_moment, const at::Tensor& second_moment,
             const GradientSum& gradient, const AdamWStep& step) override {
    check_state(parameter, gradient, {first_moment, second_moment});
    check_launch(cuda::adamw(current_stream(parameter), rule_of(step), kernel_sum(gradient), parameter.numel(),
                             parameter.mutable_data_ptr(), first_moment.mutable_data_ptr(),
                             second_moment.mutable_data_ptr()));
  }

  void adamw(const at::Tensor& parameter, const CodedMoment& first_moment, const CodedMoment& second_moment,
             const GradientSum& gradient, const AdamWStep& step) override {
    check_state(parameter, gradient, {});
    check_coded(parameter, {first_moment, second_moment});
    if (!maps_.defined()) maps_ = code_maps().to(parameter.device());
    check_launch(cuda::adamw(current_stream(parameter), rule_of(step), kernel_sum(gradient), parameter.numel(),
                             parameter.mutable_data_ptr(), coded(first_moment, 0), coded(second_moment, 1)));
  }

  void sgd(const at::Tensor& parameter, const at::Tensor& momentum, const GradientSum& gradient,
           const SgdStep& step) override {
    check_state(parameter, gradient, {momentum});
    cuda::Sgd rule;
    rule.gradient_scale = static_cast<float>(step.gradient_scale);
    rule.multiple = 0x1p-44 * step.gradient_scale;
    rule.rate = static_cast<float>(step.rate);
    rule.momentum = static_cast<float>(step.momentum);
    rule.decay = static_cast<float>(step.decay);
    rule.first = step.first;
    check_launch(cuda::sgd(current_stream(parameter), rule, kernel_sum(gradient), parameter.numel(),
                           parameter.mutable_data_ptr(), momentum.defined() ? momentum.mutable_data_ptr() : nullptr));
  }

  void assign(const Weight& weight, const at::Tensor& values) override {
    at::Tensor storage = weight.storage;
    storage.copy_(values);
  }

  bool has_plain_weights() const override { return true; }

  void adopt(const Weight& weight, const at::Tensor& values) override {
    at::Tensor storage = weight.storage;
    storage.set_(values);
  }

 private:
  static cuda::AdamW rule_of(const AdamWStep& step) {
    const auto steps = static_cast<double>(step.step);
    cuda::AdamW rule;
    rule.gradient_scale = static_cast<float>(step.gradient_scale);
    rule.multiple = 0x1p-44 * step.gradient_scale;
    rule.kept = static_cast<float>(1 - step.rate * step.decay);
    rule.first_share = static_cast<float>(1 - step.beta1);
    rule.beta2 = static_cast<float>(step.beta2);
    rule.second_share = static_cast<float>(1 - step.beta2);
    rule.second_root = static_cast<float>(std::sqrt(1 - std::pow(step.beta2, steps)));
    rule.epsilon = static_cast<float>(step.epsilon);
    rule.step_size = static_cast<float>(step.rate / (1 - std::pow(step.beta1, steps)));
    return rule;
  }

  // map: 0: the signed one, 1: the unsigned one.
  cuda::CodedMoment coded(const CodedMoment& moment, std::int64_t map) const {
    const auto* values = maps_[map].const_data_ptr<float>();
    return {{values, values + maps_.size(2)},
            moment.codes.mutable_data_ptr<std::uint8_t>(),
            moment.scales.mutable_data_ptr<float>()};
  }

  // weights: nullptr: the losses alone.
  at::Tensor cross_entropy(const at::Tensor& logits, void* values, const at::Tensor& targets, const float* weights,
                           double temperature) {
    const at::Tensor tokens = targets.contiguous();
    at::Tensor losses = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
    check_launch(cuda::cross_entropy(current_stream(logits), scalar_of(logits), values,
                                     tokens.const_data_ptr<std::int64_t>(), logits.size(0), logits.size(1), weights,
                                     static_cast<float>(temperature), deterministic_,
                                     losses.mutable_data_ptr<float>()));
    return losses;
  }

  // product = left · right in float32, whatever they are stored as.
  static void multiply(at::Tensor& product, const at::Tensor& left, const at::Tensor& right) {
    if (right.scalar_type() == at::kFloat)
      at::mm_out(product, left, right);
    else
      at::mm_out(product, left, right, at::kFloat);
  }

  // sum += left · right. Some of the torch versions that muster supports can add only float32 to float32; these
  // say so before they compute anything.
  void add_whole_product(at::Tensor sum, const at::Tensor& left, const at::Tensor& right) {
    if (right.scalar_type() == sum.scalar_type()) {
      sum.addmm_(left, right);
      return;
    }
    if (right.scalar_type() == at::kFloat) {
      sum.add_(at::mm(left, right));
      return;
    }
    if (adds_in_place_) {
      try {
        at::addmm_out(sum, sum, left, right, at::kFloat);
        return;
      } catch (const c10::OutOfMemoryError&) {
        throw;
      } catch (const c10::Error&) {
        adds_in_place_ = false;
      }
    }
    sum.add_(at::mm(left, right, at::kFloat));
  }

  bool deterministic_;
  at::Tensor maps_;  // of codes, on the device; undefined until the first step that needs them
  bool adds_in_place_ = true;
};

}  // namespace

std::unique_ptr<TrainingOps> make_gpu_training_ops(bool deterministic) { return std::make_unique<GpuTrainingOps>(deterministic); }

}  // namespace muster::tensor
