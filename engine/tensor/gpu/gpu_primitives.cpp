#include "tensor/gpu/gpu_primitives.hpp"

#include <algorithm>
#include <stdexcept>

#include "cuda/packed_kernels.hpp"
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

// A packed weight's memory as kernels see it.
cuda::PackedMatrix words_of(const Weight& weight) {
  const WordPlaces places = word_places(weight.outputs, weight.inputs, weight.form());
  const auto* const memory = static_cast<const std::byte*>(weight.storage.const_data_ptr());
  cuda::PackedMatrix words{.codes = memory,
                           .scales = reinterpret_cast<const float*>(memory + places.scales),
                           .outputs = weight.outputs,
                           .inputs = weight.inputs,
                           .slots = places.slots,
                           .run = weight.packing->run};
  if (places.has_phases) words.phases = reinterpret_cast<const std::uint16_t*>(memory + places.phases);
  if (weight.packing->bits() == 4)
    words.values = kernels::code_table(coded_form(weight.type, *weight.packing).code).values.data();
  return words;
}

// Some of its rows, from the first one of a panel on.
cuda::PackedMatrix words_of(const Weight& weight, std::int64_t first_row, std::int64_t rows) {
  cuda::PackedMatrix words = words_of(weight);
  const WordPlaces before = word_places(first_row, weight.inputs, weight.form());
  words.codes = static_cast<const std::byte*>(words.codes) + before.scales;
  words.scales += first_row * words.slots;
  if (words.phases != nullptr) words.phases += first_row;
  words.outputs = rows;
  return words;
}

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
    const std::int64_t bytes = word_places(outputs, inputs, form).bytes;
    return {outputs, inputs, form.type, at::empty({bytes}, options.dtype(at::kByte)), form.packing};
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
    Weight host = new_host_weight(std::min(codes / weight.inputs, weight.outputs - first_row), weight);
    fill_packed_codes(host, 0, rows);
    copy_packed_rows(weight, first_row, host);
  }

  void round_scales(Weight& weight, std::int64_t first_row, std::int64_t rows) override {
    if (!weight.packing || !weight.packing->double_quantized || weight.packing->bits() == 8) return;
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
    // Whole panels, from the one that the first row is in on.
    const std::int64_t before = first_row % kernels::panel_columns;
    return unpacked(weight, words_of(weight, first_row - before, before + rows)).narrow(0, before, rows);
  }

  at::Tensor linear(const Weight& held, const at::Tensor& bias, const at::Tensor& input) override {
    if (multiplies_codes(held, input)) {
      at::Tensor output = at::empty({input.size(0), held.outputs}, input.options());
      code_linear(held, bias, input, false, output);
      return output;
    }
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
    const bool is_silu = activation == spec::Activation::silu || activation == spec::Activation::swish;
    const std::int64_t rows = input.size(0), outputs = weight.outputs / 2;
    if (deterministic_ || !is_silu || !input.is_contiguous()) return {};
    if (weight.packing) return gated_code_linear(weight, bias, input);
    if (is_small_batch(weight, input) || !cuda::has_gated_product(scalar_of(input), rows, outputs, weight.inputs))
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
    if (!sum.is_same(base)) sum.copy_(base);
    const bool is_whole = sum.is_contiguous();
    if (is_whole && multiplies_codes(held, input)) {
      code_linear(held, bias, input, true, sum);
      return;
    }
    const Weight weight = plain(held);
    if (deterministic_) {
      sum.add_(fixed_linear(weight, bias, input));
      return;
    }
    if (is_whole && is_small_batch(weight, input)) {
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

  void add_input_gradient(const Weight& weight, const at::Tensor& output_gradient, at::Tensor& gradient) override {
    if (deterministic_)
      gradient.add_(linear_input_gradient(weight, output_gradient));
    else
      gradient.addmm_(output_gradient, plain(weight).storage);
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
  static Weight new_host_weight(std::int64_t rows, const Weight& like) {
    const WeightForm form = like.form();
    return {rows, like.inputs, form.type, at::empty({packed_bytes(rows, like.inputs, form)}, at::kByte), form.packing};
  }
  // A packed weight's numbers, for as long as a product needs them: the allocator keeps the memory ready for the next.
  static Weight plain(const Weight& weight) {
    if (!weight.packing) return weight;
    return {weight.outputs, weight.inputs, weight.type, unpacked(weight, words_of(weight))};
  }
  // words: some of its rows.
  static at::Tensor unpacked(const Weight& weight, const cuda::PackedMatrix& words) {
    at::Tensor matrix = at::empty({words.outputs, words.inputs}, weight.storage.options().dtype(weight.type));
    check_launch(cuda::unpack(current_stream(matrix), scalar_of(matrix), words, matrix.mutable_data_ptr()));
    return matrix;
  }

  // In deterministic mode a product's sums are those of a plain weight.
  bool multiplies_codes(const Weight& weight, const at::Tensor& input) const {
    return weight.packing && !deterministic_ && input.is_contiguous() &&
           cuda::has_packed_product(scalar_of(input), words_of(weight), input.size(0));
  }
  static void code_linear(const Weight& weight, const at::Tensor& bias, const at::Tensor& input, bool adds,
                          at::Tensor& output) {
    check_launch(cuda::packed_product(current_stream(input), scalar_of(input), words_of(weight),
                                      bias.defined() ? bias.const_data_ptr() : nullptr, input.const_data_ptr(),
                                      input.size(0), adds, output.mutable_data_ptr()));
  }
  static at::Tensor gated_code_linear(const Weight& weight, const at::Tensor& bias, const at::Tensor& input) {
    const cuda::PackedMatrix words = words_of(weight);
    if (!cuda::has_packed_gated_product(scalar_of(input), words, input.size(0))) return {};
    at::Tensor output = at::empty({input.size(0), weight.outputs / 2}, input.options());
    check_launch(cuda::packed_gated_product(current_stream(input), scalar_of(input), words,
                                            bias.defined() ? bias.const_data_ptr() : nullptr, input.const_data_ptr(),
                                            input.size(0), output.mutable_data_ptr()));
    return output;
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
};

}  // namespace

std::unique_ptr<Primitives> make_gpu_primitives(const DeviceOptions& device_options) {
  return std::make_unique<GpuPrimitives>(device_options);
}

}  // namespace muster::tensor
