#include <cstring>
#include <numeric>
#include <stdexcept>

#include "kernels/linear.hpp"
#include "kernels/logits.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/packed_matrix.hpp"
#include "kernels/row_sums.hpp"
#include "tensor/cpu_primitives.hpp"
#include "tensor/cpu_scalar.hpp"
#include "tensor/cpu_sum.hpp"
#include "tensor/optimizer_state.hpp"

namespace muster::tensor {
namespace {

void check_indices(const at::Tensor& indices, std::int64_t count, const char* message) {
  const auto* values = indices.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < indices.numel(); ++i)
    if (values[i] < 0 || values[i] >= count) throw std::out_of_range(message);
}

at::Tensor checked_targets(const at::Tensor& logits, const at::Tensor& targets) {
  at::Tensor tokens = targets.contiguous();
  check_indices(tokens, logits.size(1), "a target that the logits do not have");
  return tokens;
}

kernels::Logits kernel_logits(const at::Tensor& logits) {
  return {logits.const_data_ptr(), scalar_of(logits), logits.size(0), logits.size(1)};
}

kernels::AdamWRule rule_of(const AdamWStep& step) {
  return {step.rate, step.beta1, step.beta2, step.epsilon, step.decay, step.step, step.gradient_scale};
}

kernels::CodedMoment kernel_moment(const CodedMoment& moment) {
  return {moment.codes.mutable_data_ptr<std::uint8_t>(), moment.scales.mutable_data_ptr<float>()};
}

class CpuTrainingOps final : public TrainingOps {
 public:
  explicit CpuTrainingOps(std::shared_ptr<kernels::ThreadTeam> team) : team_(std::move(team)) {}

  void clear(const GradientSum& sum) override {
    constexpr std::int64_t at_once = 1 << 20;
    auto* bytes = static_cast<std::byte*>(sum.values.mutable_data_ptr());
    team_->split(static_cast<std::int64_t>(sum.values.nbytes()), at_once,
                 [bytes](std::int64_t begin, std::int64_t end) {
                   std::memset(bytes + begin, 0, static_cast<std::size_t>(end - begin));
                 });
  }

  void add_product(const GradientSum& sum, const at::Tensor& output_gradient, const at::Tensor& input,
                   std::span<const std::int64_t> sequence_rows) override {
    const at::Tensor from = output_gradient.contiguous(), rows = input.contiguous();
    std::int64_t count = 0;
    for (const std::int64_t sequence : sequence_rows) count += sequence;
    if (count != rows.size(0) || count != from.size(0) || rows.scalar_type() != from.scalar_type())
      throw std::invalid_argument("a product of rows that do not belong together");
    kernels::linear_weight_gradient(*team_, from.const_data_ptr(), rows.const_data_ptr(), scalar_of(rows),
                                    sequence_rows, from.size(1), rows.size(1), kernel_sum(sum));
  }

  void add_rows(const GradientSum& sum, const at::Tensor& gradient) override {
    const at::Tensor rows = gradient.contiguous();
    kernels::add_rows(*team_, rows.const_data_ptr(), scalar_of(rows), rows.size(0), rows.size(1), kernel_sum(sum));
  }

  void add_rows_at(const GradientSum& sum, const at::Tensor& indices, const at::Tensor& gradient) override {
    const at::Tensor rows = gradient.contiguous(), places = indices.contiguous();
    check_indices(places, sum.values.size(0), "a row that the sum does not have");
    kernels::add_rows_at(*team_, rows.const_data_ptr(), scalar_of(rows), places.const_data_ptr<std::int64_t>(),
                         rows.size(0), rows.size(1), kernel_sum(sum));
  }

  at::Tensor square_blocks(const GradientSum& sum) override {
    const std::int64_t count = sum.values.numel();
    at::Tensor blocks = at::empty({kernels::square_block_count(count)}, at::kDouble);
    kernels::square_blocks(*team_, kernel_sum(sum), count, blocks.mutable_data_ptr<double>());
    return blocks;
  }

  at::Tensor squared_sum(const GradientSum& sum) override {
    const at::Tensor blocks = square_blocks(sum);
    const std::span values(blocks.const_data_ptr<double>(), static_cast<std::size_t>(blocks.numel()));
    return at::full({1}, std::accumulate(values.begin(), values.end(), 0.0), at::kDouble);
  }

  at::Tensor cross_entropy(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights,
                           double temperature) override {
    const at::Tensor tokens = checked_targets(logits, targets), factors = weights.contiguous();
    logits = logits.contiguous();
    at::Tensor losses = at::empty({logits.size(0)}, at::kFloat);
    kernels::cross_entropy(*team_, kernel_logits(logits), tokens.const_data_ptr<std::int64_t>(),
                           factors.const_data_ptr<float>(), losses.mutable_data_ptr<float>(), logits.mutable_data_ptr(),
                           temperature);
    return losses;
  }

  LossAndEntropy cross_entropy(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights,
                               const at::Tensor& entropy_weights, double temperature) override {
    const at::Tensor tokens = checked_targets(logits, targets), factors = weights.contiguous(),
                     entropy_factors = entropy_weights.contiguous();
    logits = logits.contiguous();
    LossAndEntropy found{at::empty({logits.size(0)}, at::kFloat), at::empty({logits.size(0)}, at::kFloat)};
    kernels::cross_entropy(*team_, kernel_logits(logits), tokens.const_data_ptr<std::int64_t>(),
                           factors.const_data_ptr<float>(),
                           {entropy_factors.const_data_ptr<float>(), found.entropies.mutable_data_ptr<float>()},
                           found.losses.mutable_data_ptr<float>(), logits.mutable_data_ptr(), temperature);
    return found;
  }

  at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, double temperature) override {
    const at::Tensor tokens = checked_targets(logits, targets), values = logits.contiguous();
    at::Tensor chances = at::empty({logits.size(0)}, at::kFloat);
    kernels::log_softmax_select(*team_, kernel_logits(values), tokens.const_data_ptr<std::int64_t>(),
                                chances.mutable_data_ptr<float>(), temperature);
    return chances.neg_();
  }

  void adamw(const at::Tensor& parameter, const at::Tensor& first_moment, const at::Tensor& second_moment,
             const GradientSum& gradient, const AdamWStep& step) override {
    check_state(parameter, gradient, {first_moment, second_moment});
    kernels::adamw(*team_, rule_of(step), kernel_sum(gradient), parameter.numel(), scalar_of(parameter),
                   parameter.mutable_data_ptr(), first_moment.mutable_data_ptr(), second_moment.mutable_data_ptr());
  }

  void adamw(const at::Tensor& parameter, const CodedMoment& first_moment, const CodedMoment& second_moment,
             const GradientSum& gradient, const AdamWStep& step) override {
    check_state(parameter, gradient, {});
    check_coded(parameter, {first_moment, second_moment});
    kernels::adamw(*team_, rule_of(step), kernel_sum(gradient), parameter.numel(), scalar_of(parameter),
                   parameter.mutable_data_ptr(), kernel_moment(first_moment), kernel_moment(second_moment));
  }

  void sgd(const at::Tensor& parameter, const at::Tensor& momentum, const GradientSum& gradient,
           const SgdStep& step) override {
    check_state(parameter, gradient, {momentum});
    kernels::sgd(*team_, {step.rate, step.momentum, step.decay, step.first, step.gradient_scale}, kernel_sum(gradient),
                 parameter.numel(), scalar_of(parameter), parameter.mutable_data_ptr(),
                 momentum.defined() ? momentum.mutable_data_ptr() : nullptr);
  }

  void assign(const Weight& weight, const at::Tensor& values) override {
    const at::Tensor rows = values.contiguous();
    kernels::PackedMatrix(static_cast<std::byte*>(weight.storage.mutable_data_ptr()), weight.outputs, weight.inputs,
                          scalar_of(weight.stored))
        .pack_rows(*team_, 0, weight.outputs, rows.const_data_ptr(), scalar_of(rows));
  }

  bool has_plain_weights() const override { return false; }

  void adopt(const Weight& weight, const at::Tensor& values) override {
    at::Tensor storage = weight.storage;
    const std::size_t bytes =
        kernels::PackedMatrix::bytes_needed(weight.outputs, weight.inputs, scalar_of(weight.stored));
    storage.set_(at::empty({static_cast<std::int64_t>(bytes)}, at::kByte));
    assign(weight, values);
  }

 private:
  std::shared_ptr<kernels::ThreadTeam> team_;
};

}  // namespace

std::unique_ptr<TrainingOps> make_cpu_training_ops(std::shared_ptr<kernels::ThreadTeam> team) {
  return std::make_unique<CpuTrainingOps>(std::move(team));
}

}  // namespace muster::tensor
