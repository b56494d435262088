#include "tensor/gpu/gpu_primitives.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "tensor/cpu_packed_weight.hpp"
#include "tensor/gpu/gpu_attention.hpp"
#include "tensor/gpu/gpu_scalar.hpp"
#include "tensor/packed_panels.hpp"

namespace muster::tensor {
namespace {

// Note [Rows of deterministic products]
// cuBLAS chooses how to split a product by its shape. In deterministic mode every product has this many rows, the last
// one filled up with zeros, so that the choice and with it the order of a row's sum is always the same.
constexpr std::int64_t fixed_rows = 512;

// For products with few rows cuBLASLt has faster kernels. As long as this lives, torch multiplies with it.
class FewRows {
 public:
  explicit FewRows(std::int64_t rows) : before_(at::globalContext().blasPreferredBackend()) {
    if (rows <= most) prefer(at::BlasBackend::Cublaslt);
  }
  ~FewRows() { prefer(before_); }
  FewRows(const FewRows&) = delete;
  FewRows& operator=(const FewRows&) = delete;

 private:
  static constexpr std::int64_t most = 64;

  // torch warns that it may be wrong one day; the GPU tests would show it.
  static void prefer(at::BlasBackend backend) {
    if (at::globalContext().blasPreferredBackend() == backend) return;
    class Silence final : public c10::WarningHandler {
      void process(const c10::Warning&) override {}
    } silence;
    const c10::WarningUtils::WarningHandlerGuard guard(&silence);
    at::globalContext().setBlasPreferredBackend(backend);
  }

  at::BlasBackend before_;
};

class GpuPrimitives final : public Primitives {
 public:
  explicit GpuPrimitives(const DeviceOptions& device_options)
      : device_(device_options.device), deterministic_(device_options.deterministic), attention_(device_options.attention) {}

  bool has_form(const WeightForm& form) const override {
    return form.packing ? cpu_has_packing(*form.packing) : form.stored == form.type;
  }

  Weight new_weight(std::int64_t outputs, std::int64_t inputs, const WeightForm& form) override {
    if (!has_form(form)) throw std::logic_error("a GPU keeps weights in the type that it computes in");
    const auto options = at::TensorOptions().device(device_);
    if (!form.packing) return {outputs, inputs, form.type, at::empty({outputs, inputs}, options.dtype(form.type))};
    at::Tensor& values = values_of(form.packing->code);
    if (!values.defined()) values = code_values(form.packing->code, device_);
    return {outputs, inputs, form.type, at::empty({packed_bytes(outputs, inputs, form)}, options.dtype(at::kByte)),
            form.packing};
  }

  void fill_rows(Weight& weight, std::int64_t first_row, const at::Tensor& rows) override {
    if (!weight.packing) {
      weight.storage.narrow(0, first_row, rows.size(0)).copy_(rows);
      return;
    }
    Weight host = new_host_weight(rows.size(0), weight);
    fill_packed_rows(host, 0, rows);
    copy_packed_rows(weight, first_row, host);
  }

  void fill_codes(Weight& weight, std::int64_t first_row, const WeightCodes& rows) override {
    const std::int64_t codes = rows.codes.numel() * (weight.packing->bits() == 8 ? 1 : 2);
    Weight host = new_host_weight(codes / weight.inputs, weight);
    fill_packed_codes(host, 0, rows);
    copy_packed_rows(weight, first_row, host);
  }

  void round_scales(Weight& weight, std::int64_t first_row, std::int64_t rows) override {
    if (!weight.packing || !weight.packing->double_quantized) return;
    Weight host = weight;
    host.storage = weight.storage.cpu();
    round_packed_scales(host, first_row, rows);
    copy_packed_scales(weight, host);
  }

  at::Tensor take_rows(const Weight& weight, const at::Tensor& indices) override {
    return plain(weight).storage.index_select(0, indices);
  }

  at::Tensor numbers(const Weight& weight, std::int64_t first_row, std::int64_t rows) override {
    if (!weight.packing) return weight.storage.narrow(0, first_row, rows);
    return unpacked_rows(weight, values_of(weight.packing->code), first_row, rows);
  }

  at::Tensor linear(const Weight& held, const at::Tensor& bias, const at::Tensor& input) override {
    const Weight weight = plain(held);
    if (deterministic_) return fixed_linear(weight, bias, input);
    if (is_small_batch(weight, input)) {
      at::Tensor output = at::empty({input.size(0), weight.outputs}, input.options());
      small_batch_linear(weight, bias, input, false, output);
      return output;
    }
    const FewRows few(input.size(0));
    return at::linear(input, weight.storage, bias.defined() ? std::optional(bias) : std::nullopt);
  }

  at::Tensor gated_linear(spec::Activation activation, const Weight& weight, const at::Tensor& bias,
                          const at::Tensor& input) override {
    if (weight.packing) return {};
    const bool is_silu = activation == spec::Activation::silu || activation == spec::Activation::swish;
    const std::int64_t rows = input.size(0), outputs = weight.outputs / 2;
    if (deterministic_ || !is_silu || is_small_batch(weight, input) || !input.is_contiguous() ||
        !cuda::has_gated_product(scalar_of(input), rows, outputs, weight.inputs))
      return {};
    at::Tensor output = at::empty({rows, outputs}, input.options());
    check_launch(cuda::gated_product(current_stream(input), scalar_of(input), weight.storage.const_data_ptr(),
                                     bias.defined() ? bias.const_data_ptr() : nullptr, input.const_data_ptr(), rows,
                                     outputs, weight.inputs, output.mutable_data_ptr()));
    return output;
  }

  // The library adds to what is there before it rounds.
  void linear_add(const Weight& held, const at::Tensor& bias, const at::Tensor& input, const at::Tensor& base,
                  at::Tensor& sum) override {
    const Weight weight = plain(held);
    if (!sum.is_same(base)) sum.copy_(base);
    if (deterministic_) {
      sum.add_(fixed_linear(weight, bias, input));
      return;
    }
    if (is_small_batch(weight, input)) {
      small_batch_linear(weight, bias, input, true, sum);
      return;
    }
    const FewRows few(input.size(0));
    sum.addmm_(input, weight.storage.t());
    if (bias.defined()) sum.add_(bias);
  }

  at::Tensor linear_input_gradient(const Weight& weight, const at::Tensor& output_gradient) override {
    const at::Tensor matrix = plain(weight).storage;
    return deterministic_ ? fixed_product(output_gradient, matrix) : output_gradient.matmul(matrix);
  }

  at::Tensor attention(const AttentionShape& shape, const AttentionTables& tables, const HeadRows& heads,
                       const LayerCache& cache, at::Tensor* log_sums) override {
    return deterministic_ ? fixed_order_attention(shape, tables, heads, cache, log_sums)
                          : attention_.forward(shape, tables, heads, cache, log_sums);
  }

  AttentionGradient attention_gradient(const AttentionShape& shape, const AttentionTables& tables,
                                       const HeadRows& heads, const at::Tensor& output, const at::Tensor& log_sums,
                                       const at::Tensor& output_gradient) override {
    return attention_.backward(shape, tables, heads, output, log_sums, output_gradient, deterministic_);
  }

 private:
  at::Tensor& values_of(spec::PackedCode code) { return values_[code == spec::PackedCode::fp4 ? 1 : 0]; }
  static Weight new_host_weight(std::int64_t rows, const Weight& like) {
    const WeightForm form = like.form();
    return {rows, like.inputs, form.type, at::empty({packed_bytes(rows, like.inputs, form)}, at::kByte), form.packing};
  }
  // A packed weight's numbers, for as long as a product needs them.
  Weight plain(const Weight& weight) {
    if (!weight.packing) return weight;
    return {weight.outputs, weight.inputs, weight.type, unpacked(weight, values_of(weight.packing->code))};
  }

  static bool is_small_batch(const Weight& weight, const at::Tensor& input) {
    return input.is_contiguous() && cuda::has_small_batch_product(scalar_of(input), input.size(0), weight.inputs);
  }
  static void small_batch_linear(const Weight& weight, const at::Tensor& bias, const at::Tensor& input, bool adds,
                                 at::Tensor& output) {
    check_launch(cuda::small_batch_product(current_stream(input), scalar_of(input), weight.storage.const_data_ptr(),
                                           bias.defined() ? bias.const_data_ptr() : nullptr, input.const_data_ptr(),
                                           input.size(0), weight.outputs, weight.inputs, adds,
                                           output.mutable_data_ptr()));
  }

  static at::Tensor fixed_linear(const Weight& weight, const at::Tensor& bias, const at::Tensor& input) {
    const at::Tensor output = fixed_product(input, weight.storage.t());
    return bias.defined() ? output + bias : output;
  }

  static at::Tensor fixed_product(const at::Tensor& input, const at::Tensor& matrix) {
    const std::int64_t rows = input.size(0);
    at::Tensor output = at::empty({rows, matrix.size(1)}, input.options());
    for (std::int64_t first = 0; first < rows; first += fixed_rows) {
      const std::int64_t count = std::min(fixed_rows, rows - first);
      at::Tensor part = input.narrow(0, first, count);
      if (count < fixed_rows) part = at::cat({part, at::zeros({fixed_rows - count, matrix.size(0)}, input.options())});
      const at::Tensor product = part.matmul(matrix);
      output.narrow(0, first, count).copy_(product.narrow(0, 0, count));
    }
    return output;
  }

  at::Device device_;
  bool deterministic_;
  GpuAttention attention_;
  std::array<at::Tensor, 2> values_;  // of nf4 and fp4, once a weight has them
};

}  // namespace

std::unique_ptr<Primitives> make_gpu_primitives(const DeviceOptions& device_options) {
  return std::make_unique<GpuPrimitives>(device_options);
}

}  // namespace muster::tensor
