// What the linear layers of a model cost on a GPU with weights in each form: plain, int8, nf4, fp4.
//
//   packed_product_bench CONFIG [ROWS...]
//
// Prints a JSON line for each form, number of rows and product of a block: microseconds of one call, and terabytes a
// second of what the weight takes in that form. Then one for all products of a block: how many tokens a second there
// would be if a step were nothing else, and how many times as many as with plain weights. From 256 rows on the gradient
// of the input, and how long unpacking takes by itself. Weights of several layers take turns.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "spec/model/model_source.hpp"
#include "tensor/device_ops.hpp"

#ifdef MUSTER_CUDA

#include "recorded_time.hpp"

namespace {

using namespace muster;
using bench::microseconds;
using bench::turns;
using spec::PackedCode;

struct Form {
  const char* name;
  tensor::WeightForm form;
};

struct Product {
  const char* name;
  std::int64_t outputs = 0, inputs = 0;
};

class PackedProductBench {
 public:
  explicit PackedProductBench(const spec::ModelConfig& config) : config_(config) {
    auto made = tensor::make_device_ops({at::Device(at::kCUDA, 0), 1, spec::Attention::sdpa, false});
    if (!made) throw std::runtime_error(made.error().what);
    ops_ = std::move(*made);
    for (const Product& product : products())
      values_.push_back((random({product.outputs, product.inputs}) * 0.02).cpu());
  }

  void run(const std::vector<std::int64_t>& row_counts) {
    for (const Form& form : forms()) {
      make_weights(form);
      for (const std::int64_t rows : row_counts) all_products(form, rows);
      if (form.form.packing) unpacking(form);
    }
  }

 private:
  static std::vector<Form> forms() {
    return {{"plain", at::kBFloat16},
            {"int8", {at::kBFloat16, spec::WeightPacking{PackedCode::int8}}},
            {"nf4", {at::kBFloat16, spec::WeightPacking{PackedCode::nf4}}},
            {"fp4", {at::kBFloat16, spec::WeightPacking{PackedCode::fp4}}}};
  }
  std::vector<Product> products() const {
    return {{"queries, keys, values", config_.query_width() + 2 * config_.kv_width(), config_.hidden},
            {"output", config_.hidden, config_.query_width()},
            {"gate, up and activation", 2 * config_.intermediate, config_.hidden},
            {"down", config_.hidden, config_.intermediate}};
  }
  static at::Tensor random(at::IntArrayRef sizes) {
    return at::randn(sizes, at::dtype(at::kBFloat16).device(at::kCUDA, 0));
  }

  // Filled once; the others are copies.
  void make_weights(const Form& form) {
    weights_.clear();
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const Product product = products()[i];
      tensor::Weight weight = ops_.primitives->new_weight(product.outputs, product.inputs, form.form);
      ops_.primitives->fill_rows(weight, 0, values_[i]);
      auto& copies = weights_.emplace_back(turns, weight);
      for (std::size_t turn = 1; turn < copies.size(); ++turn) copies[turn].storage = weight.storage.clone();
    }
  }

  double forward(std::size_t at, std::int64_t rows) {
    const Product product = products()[at];
    const at::Tensor input = random({rows, product.inputs}), bias = random({product.outputs});
    at::Tensor sum = random({rows, product.outputs});
    auto& primitives = *ops_.primitives;
    const auto call = [&](int turn) {
      const tensor::Weight& weight = weights_[at][static_cast<std::size_t>(turn)];
      if (at == 0) {
        primitives.linear(weight, bias, input);
      } else if (at != 2) {
        primitives.linear_add(weight, {}, input, sum, sum);
      } else if (!primitives.gated_linear(config_.activation, weight, {}, input).defined()) {
        const auto both = primitives.linear(weight, {}, input).chunk(2, 1);
        ops_.rows->activate(config_.activation, both[0], both[1]);
      }
    };
    return microseconds(call, replays(rows));
  }
  double backward(std::size_t at, std::int64_t rows) {
    const at::Tensor gradient = random({rows, products()[at].outputs});
    return microseconds(
        [&](int turn) {
          ops_.primitives->linear_input_gradient(weights_[at][static_cast<std::size_t>(turn)], gradient);
        },
        replays(rows));
  }
  static int replays(std::int64_t rows) { return rows < 256 ? 20 : 4; }

  void all_products(const Form& form, std::int64_t rows) {
    double together = 0;
    for (std::size_t at = 0; at < values_.size(); ++at) {
      const double time = forward(at, rows);
      together += time;
      print(form, products()[at].name, rows, time, static_cast<double>(weights_[at][0].storage.nbytes()));
      if (rows < 256) continue;
      const double back = backward(at, rows);
      together += back;
      print(form, fmt::format("{}: gradient of the input", products()[at].name), rows, back, 0);
    }
    const double tokens = static_cast<double>(rows) / (together * 1e-6 * static_cast<double>(config_.layers));
    double& plain = plain_[rows];
    if (!form.form.packing) plain = tokens;
    nlohmann::ordered_json line{{"form", form.name}, {"operation", "all"}, {"rows", rows}, {"microseconds", together},
                                {"tokens_per_second", tokens}};
    if (plain > 0) line["times_plain"] = tokens / plain;
    fmt::print("{}\n", line.dump());
    std::fflush(stdout);
  }

  // One row of the matrix is asked for, and all are unpacked.
  void unpacking(const Form& form) {
    const at::Tensor first = at::zeros({1}, at::dtype(at::kLong).device(at::kCUDA, 0));
    for (std::size_t at = 0; at < values_.size(); ++at) {
      const double time = microseconds(
          [&](int turn) { ops_.primitives->take_rows(weights_[at][static_cast<std::size_t>(turn)], first); });
      print(form, fmt::format("{}: unpacking", products()[at].name), 0, time,
            static_cast<double>(weights_[at][0].storage.nbytes()) + static_cast<double>(2 * values_[at].numel()));
    }
  }

  static void print(const Form& form, const std::string& operation, std::int64_t rows, double time, double bytes) {
    nlohmann::ordered_json line{{"form", form.name}, {"operation", operation}, {"rows", rows}, {"microseconds", time}};
    if (bytes > 0) line["terabytes_per_second"] = bytes / time * 1e-6;
    fmt::print("{}\n", line.dump());
  }

  spec::ModelConfig config_;
  tensor::DeviceOps ops_;
  std::vector<at::Tensor> values_;  // of each product's weight, on the host
  std::vector<std::vector<tensor::Weight>> weights_;
  std::map<std::int64_t, double> plain_;  // tokens per second, by rows
};

}  // namespace

int main(int argc, char** argv) {
  const at::NoGradGuard forward_only;
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto description = spec::read_model(words.at(0), spec::model_search_from_environment(), std::nullopt);
  if (!description) {
    fmt::print(stderr, "{}\n", description.error().what);
    return 2;
  }
  std::vector<std::int64_t> rows;
  for (std::size_t i = 1; i < words.size(); ++i) rows.push_back(std::stoll(words[i]));
  if (rows.empty()) rows = {1, 2, 4, 8, 16, 32, 64, 128, 2048};
  PackedProductBench(description->config).run(rows);
}

#else

int main() {
  fmt::print(stderr, "this torch has no CUDA\n");
  return 3;
}

#endif
