#include "tensor/gpu/gpu_primitives.hpp"

#include <algorithm>

#include "tensor/gpu/gpu_attention.hpp"

namespace muster::tensor {
namespace {

// Note [Rows of deterministic products]
// cuBLAS chooses how to split a product by its shape. In deterministic mode every product has this many rows, the last
// one filled up with zeros, so that the choice and with it the order of a row's sum is always the same.
constexpr std::int64_t fixed_rows = 512;

class GpuPrimitives final : public Primitives {
 public:
  explicit GpuPrimitives(const ArithmeticWish& wish) : device_(wish.device), deterministic_(wish.deterministic) {}

  Weight new_weight(std::int64_t outputs, std::int64_t inputs, at::ScalarType type) override {
    const auto options = at::TensorOptions().dtype(type).device(device_);
    return {outputs, inputs, type, at::empty({outputs, inputs}, options)};
  }

  void fill_rows(Weight& weight, std::int64_t first_row, const at::Tensor& rows) override {
    weight.storage.narrow(0, first_row, rows.size(0)).copy_(rows);
  }

  at::Tensor take_rows(const Weight& weight, std::span<const std::int64_t> indices) override {
    const at::Tensor chosen =
        at::tensor(at::ArrayRef<std::int64_t>(indices.data(), indices.size()), at::kLong).to(device_);
    return weight.storage.index_select(0, chosen);
  }

  at::Tensor linear(const Weight& weight, const at::Tensor& bias, const at::Tensor& input) override {
    if (deterministic_) return fixed_linear(weight, bias, input);
    return at::linear(input, weight.storage, bias.defined() ? std::optional(bias) : std::nullopt);
  }

  LinearGradient linear_gradient(const Weight& weight, bool has_bias, const at::Tensor& input,
                                 const at::Tensor& output_gradient) override {
    LinearGradient gradient;
    gradient.input = output_gradient.matmul(weight.storage);
    gradient.weight = output_gradient.t().matmul(input).to(at::kFloat);
    if (has_bias) gradient.bias = output_gradient.to(at::kFloat).sum(0);
    return gradient;
  }

  at::Tensor attention(const AttentionShape& shape, const at::Tensor& queries,
                       std::span<const AttentionSequence> sequences, at::Tensor*) override {
    return deterministic_ ? fixed_order_attention(shape, queries, sequences)
                          : library_attention(shape, queries, sequences);
  }

  AttentionGradient attention_gradient(const AttentionShape& shape, const at::Tensor& queries,
                                       std::span<const AttentionSequence> sequences, const at::Tensor&,
                                       const at::Tensor&, const at::Tensor& output_gradient) override {
    return library_attention_gradient(shape, queries, sequences, output_gradient);
  }

 private:
  at::Tensor fixed_linear(const Weight& weight, const at::Tensor& bias, const at::Tensor& input) const {
    const std::int64_t rows = input.size(0);
    at::Tensor output = at::empty({rows, weight.outputs}, input.options());
    for (std::int64_t first = 0; first < rows; first += fixed_rows) {
      const std::int64_t count = std::min(fixed_rows, rows - first);
      at::Tensor part = input.narrow(0, first, count);
      if (count < fixed_rows) part = at::cat({part, at::zeros({fixed_rows - count, weight.inputs}, input.options())});
      const at::Tensor product = part.matmul(weight.storage.t());
      output.narrow(0, first, count).copy_(product.narrow(0, 0, count));
    }
    return bias.defined() ? output + bias : output;
  }

  at::Device device_;
  bool deterministic_;
};

}  // namespace

std::unique_ptr<Primitives> make_gpu_primitives(const ArithmeticWish& wish) {
  return std::make_unique<GpuPrimitives>(wish);
}

}  // namespace muster::tensor
