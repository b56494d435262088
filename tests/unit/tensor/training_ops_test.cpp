// What training adds on every device: gradients against autograd, sums of all kinds, optimizer steps against their
// formulas and torch's own.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <numeric>

#include "tensor/device_ops.hpp"
#include "tensor/side_by_side.hpp"

#ifdef MUSTER_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

namespace muster::tensor {
namespace {

enum class Sums { plain, exact, rounded };  // rounded: to bfloat16, as the optimizer's states are then, too

struct Device {
  at::Device device;
  at::ScalarType type;
  Sums sums;
};

std::vector<Device> devices(std::initializer_list<Sums> kinds = {Sums::plain, Sums::exact, Sums::rounded}) {
  std::vector<Device> found;
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const Sums sums : kinds) {
      found.push_back({at::kCPU, type, sums});
      if (at::hasCUDA()) found.push_back({at::Device(at::kCUDA, 0), type, sums});
    }
  return found;
}

std::string name_of(const testing::TestParamInfo<Device>& info) {
  const auto& [device, type, sums] = info.param;
  return std::string(device.is_cuda() ? "Gpu" : "Cpu") + c10::toString(type) +
         (sums == Sums::exact     ? "Exact"
          : sums == Sums::rounded ? "Rounded"
                                  : "");
}

bool is_hopper(at::Device device) {
#ifdef MUSTER_CUDA
  return device.is_cuda() && at::cuda::getDeviceProperties(device.index())->major == 9;
#else
  static_cast<void>(device);
  return false;
#endif
}

constexpr double unit = 0x1p-44;

class LearningOperations : public testing::TestWithParam<Device> {
 protected:
  LearningOperations() {
    at::manual_seed(7);
    auto made = make_device_ops({GetParam().device, 2, spec::Attention::sdpa, is_exact()});
    EXPECT_TRUE(made) << (made ? "" : made.error().what);
    ops_ = std::move(*made);
  }

  static bool is_exact() { return GetParam().sums == Sums::exact; }
  static bool is_rounded() { return GetParam().sums == Sums::rounded; }
  TrainingOps& training() { return *ops_.training; }
  RowOps& row_ops() { return *ops_.rows; }
  at::Tensor weights(std::int64_t rows, double each) {
    return at::full({rows}, each, at::TensorOptions().dtype(at::kFloat).device(GetParam().device));
  }
  Primitives& primitives() { return *ops_.primitives; }
  at::Tensor random(at::IntArrayRef sizes, double scale = 1) {
    return (at::randn(sizes) * scale).to(GetParam().device, GetParam().type);
  }
  at::Tensor floats(at::IntArrayRef sizes, double scale = 1) {
    return (at::randn(sizes) * scale).to(GetParam().device);
  }
  at::Tensor numbers(const std::vector<std::int64_t>& values) const {
    return at::tensor(values, at::kLong).to(GetParam().device);
  }
  GradientSum new_sum(at::IntArrayRef sizes) const {
    const auto on = at::TensorOptions().device(GetParam().device);
    if (!is_exact()) return {at::zeros(sizes, on.dtype(is_rounded() ? at::kBFloat16 : at::kFloat)), {}};
    return {at::zeros(sizes, on.dtype(at::kLong)), at::zeros({1}, on.dtype(at::kLong))};
  }
  // The optimizer's.
  at::Tensor state(std::int64_t count) { return floats({count}).to(is_rounded() ? at::kBFloat16 : at::kFloat); }
  GradientSum holding(const at::Tensor& values) const {
    GradientSum sum = new_sum(values.sizes());
    sum.values.copy_(is_exact() ? (values.to(at::kDouble) / unit).round() : values);
    return sum;
  }
  static at::Tensor wide(const at::Tensor& tensor) { return tensor.to(at::kCPU, at::kDouble); }
  static at::Tensor held(const GradientSum& sum) { return sum.exact() ? wide(sum.values) * unit : wide(sum.values); }
  // For what is rounded to the type.
  double tolerance() const { return GetParam().type == at::kFloat ? 2e-5 : 2e-2; }
  // For a sum, after one or two additions.
  double sum_tolerance(double unrounded = 1e-5) const { return unrounded + (is_rounded() ? 0x1p-8 : 0); }
  // For numbers that the optimizer has stored some twenty times.
  double state_tolerance() const { return is_rounded() ? 3e-2 : 1e-6; }
  static void expect_near(const at::Tensor& found, const at::Tensor& wanted, double tolerance) {
    ASSERT_EQ(found.sizes(), wanted.sizes());
    const at::Tensor apart = (found - wanted).abs() / (1 + wanted.abs());
    EXPECT_LE(apart.max().item<double>(), tolerance);
  }
  // The gradients of Σ output · output_gradient by float64 autograd.
  template <class Forward>
  static std::vector<at::Tensor> autograd(const std::vector<at::Tensor>& inputs, const at::Tensor& output_gradient,
                                          Forward&& forward) {
    const at::AutoGradMode recording(true);
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& input : inputs) leaves.push_back(wide(input).detach().requires_grad_());
    return torch::autograd::grad({forward(leaves)}, leaves, {wide(output_gradient)});
  }

  DeviceOps ops_;
};

class ExactSums : public LearningOperations {};

// in: queries, keys and values of all sequences, one after another.
at::Tensor attention_formula(const AttentionShape& shape, const std::vector<std::int64_t>& lengths,
                             const std::vector<at::Tensor>& in) {
  std::vector<at::Tensor> outputs;
  for (std::int64_t first = 0; const std::int64_t length : lengths) {
    const auto heads = [&](const at::Tensor& all, std::int64_t count) {
      return all.narrow(0, first, length).view({length, count, shape.head_size}).transpose(0, 1);
    };
    const std::int64_t shared = shape.heads / shape.kv_heads;
    const at::Tensor keys = heads(in[1], shape.kv_heads).repeat_interleave(shared, 0);
    const at::Tensor values = heads(in[2], shape.kv_heads).repeat_interleave(shared, 0);
    at::Tensor hidden = at::ones({length, length}, at::kBool).triu(1);
    if (shape.window) hidden = hidden.logical_or(at::ones({length, length}, at::kBool).tril(-*shape.window));
    const at::Tensor scores = at::matmul(heads(in[0], shape.heads), keys.transpose(1, 2)) * shape.scale;
    const at::Tensor weights = at::softmax(scores.masked_fill(hidden, -INFINITY), -1);
    outputs.push_back(at::matmul(weights, values).transpose(0, 1).reshape({length, -1}));
    first += length;
  }
  return at::cat(outputs);
}

TEST_P(LearningOperations, TheInputGradientOfALinearLayerIsTheProductWithItsWeight) {
  Weight weight = primitives().new_weight(70, 40, GetParam().type);
  const at::Tensor matrix = (at::randn({70, 40}) / 8).to(GetParam().type), gradient = random({33, 70});
  primitives().fill_rows(weight, 0, matrix);
  expect_near(wide(primitives().linear_input_gradient(weight, gradient)), at::matmul(wide(gradient), wide(matrix)),
              2 * tolerance());
}

TEST_P(LearningOperations, ProductsAreAddedToWhatTheSumHolds) {
  const std::vector<std::int64_t> sequences{10, 3, 0, 300, 12, 700};
  const std::int64_t rows = std::accumulate(sequences.begin(), sequences.end(), std::int64_t{0});
  const at::Tensor gradient = random({rows, 70}, 0.02), input = random({rows, 40});
  GradientSum sum = new_sum({70, 40});
  training().add_product(sum, gradient, input, sequences);
  const at::Tensor wanted = at::matmul(wide(gradient).t(), wide(input));
  expect_near(held(sum), wanted, sum_tolerance());
  training().add_product(sum, gradient, input, sequences);
  expect_near(held(sum), 2 * wanted, sum_tolerance());
}

TEST_P(ExactSums, HaveTheSameBitsForAnyOrderOfSequencesInAnyNumberOfPasses) {
  const std::vector<std::int64_t> sequences{10, 3, 300, 12, 512, 10};
  const std::int64_t rows = std::accumulate(sequences.begin(), sequences.end(), std::int64_t{0});
  const at::Tensor gradient = random({rows, 70}, 0.02), input = random({rows, 48});
  GradientSum whole = new_sum({70, 48}), apart = new_sum({70, 48});
  GradientSum whole_rows = new_sum({70}), apart_rows = new_sum({70});
  training().add_product(whole, gradient, input, sequences);
  training().add_rows(whole_rows, gradient);
  std::int64_t end = rows;
  for (std::size_t i = sequences.size(); i-- > 0;) {
    const at::Tensor part = gradient.narrow(0, end - sequences[i], sequences[i]);
    training().add_product(apart, part, input.narrow(0, end - sequences[i], sequences[i]), {&sequences[i], 1});
    training().add_rows(apart_rows, part);
    end -= sequences[i];
  }
  EXPECT_TRUE(at::equal(whole.values, apart.values));
  EXPECT_TRUE(at::equal(whole_rows.values, apart_rows.values));
  EXPECT_EQ(whole.overflow.item<std::int64_t>(), 0);
}

TEST_P(LearningOperations, RowsAreSummedAllTogetherOrByIndex) {
  for (const std::int64_t width : {1, 37, 256, 1000}) {
    const at::Tensor gradient = random({600, width}, 0.1);
    GradientSum sum = new_sum({width});
    training().add_rows(sum, gradient);
    expect_near(held(sum), wide(gradient).sum(0), sum_tolerance());

    const at::Tensor indices = at::randint(0, 9, {600}).to(GetParam().device);
    GradientSum by_index = new_sum({11, width});
    training().add_rows_at(by_index, indices, gradient);
    const at::Tensor wanted = at::zeros({11, width}, at::kDouble).index_add_(0, indices.to(at::kCPU), wide(gradient));
    expect_near(held(by_index), wanted, sum_tolerance());
  }
}

TEST_P(ExactSums, CountTermsThatDoNotFitAndDoNotAddThem) {
  at::Tensor gradient = at::full({3, 20}, 0.25, at::kFloat);
  gradient[0][2] = 65536, gradient[1][2] = -INFINITY, gradient[1][19] = NAN, gradient[2][19] = 130;
  gradient = gradient.to(GetParam().device, GetParam().type);
  const at::Tensor one = at::ones({3, 1}, gradient.options());
  GradientSum rows = new_sum({20}), at_index = new_sum({1, 20}), product = new_sum({20, 1});
  training().add_rows(rows, gradient);
  training().add_rows_at(at_index, numbers({0, 0, 0}), gradient);
  const std::vector<std::int64_t> sequences{1, 1, 1};
  training().add_product(product, gradient, one, sequences);
  at::Tensor wanted = at::full({20}, 0.75, at::kDouble);
  wanted[2] = 0.25, wanted[19] = 130.25;
  for (const GradientSum& sum : {rows, at_index, product}) {
    EXPECT_TRUE(at::equal(held(sum).flatten(), wanted));
    EXPECT_EQ(sum.overflow.item<std::int64_t>(), 3);
  }
}

TEST_P(LearningOperations, NormGradientsAreAutograds) {
  using Shape = std::pair<std::int64_t, std::int64_t>;
  for (const auto& [rows, width] : {Shape{37, 8}, {37, 100}, {1100, 576}, {37, 3000}, {5, 8192}}) {
    const at::Tensor x = random({rows, width}), weight = random({width}), bias = random({width});
    const at::Tensor gradient = random({rows, width}, 0.1);
    x[0].zero_();
    x[1].mul_(1e4);
    GradientSum weights = new_sum({width}), biases = new_sum({width}), rms_weights = new_sum({width});
    const at::Tensor rms = row_ops().rms_norm_gradient(x, weight, 1e-5, gradient, rms_weights, {});
    const auto wanted_rms = autograd({x, weight}, gradient, [](const std::vector<at::Tensor>& in) {
      return in[0] * at::rsqrt(in[0].square().mean(-1, true) + 1e-5) * in[1];
    });
    expect_near(wide(rms), wanted_rms[0], tolerance());
    expect_near(held(rms_weights), wanted_rms[1], sum_tolerance(tolerance()));  // of the normed input, which is rounded
    const at::Tensor layer = row_ops().layer_norm_gradient(x, weight, 1e-5, gradient, weights, biases, {});
    const auto wanted = autograd({x, weight, bias}, gradient, [&](const std::vector<at::Tensor>& in) {
      return at::layer_norm(in[0], {width}, in[1], in[2], 1e-5);
    });
    expect_near(wide(layer), wanted[0], tolerance());
    expect_near(held(weights), wanted[1], sum_tolerance(2e-5));
    expect_near(held(biases), wanted[2], sum_tolerance(2e-5));
    EXPECT_NO_THROW(row_ops().rms_norm_gradient(x, weight, 1e-5, gradient, {}, {}));
    EXPECT_NO_THROW(row_ops().layer_norm_gradient(x, weight, 1e-5, gradient, {}, {}, {}));
    const at::Tensor residual = random({rows, width});
    EXPECT_TRUE(at::equal(row_ops().rms_norm_gradient(x, weight, 1e-5, gradient, {}, residual), residual + rms));
    EXPECT_TRUE(
        at::equal(row_ops().layer_norm_gradient(x, weight, 1e-5, gradient, {}, {}, residual), residual + layer));
  }
}

TEST_P(LearningOperations, TheGradientOfAGatedActivationIsAutogradsAlsoOfHalvesOfOneMatrix) {
  for (const std::int64_t width : {12, 1536}) {
    const at::Tensor joined = random({5, 2 * width}, 2), gradient = random({5, width});
    const at::Tensor gate = joined.narrow(1, 0, width), up = joined.narrow(1, width, width);
    const auto wanted =
        autograd({gate, up}, gradient, [](const std::vector<at::Tensor>& in) { return at::silu(in[0]) * in[1]; });
    const GatedGradient found = row_ops().activate_gradient(spec::Activation::silu, gate, up, gradient);
    EXPECT_TRUE(at::equal(found.activated, row_ops().activate(spec::Activation::silu, gate, up)));
    expect_near(wide(found.gate), wanted[0], tolerance());
    expect_near(wide(found.up), wanted[1], tolerance());
    EXPECT_TRUE(at::equal(side_by_side({found.gate, found.up}), at::cat({found.gate, found.up}, 1)));
  }
}

TEST_P(LearningOperations, WhatWasActivatedComesAgainWithItsGradient) {
  const at::Tensor joined = random({5, 48}), gate = joined.narrow(1, 0, 24), up = joined.narrow(1, 24, 24);
  for (const spec::Activation activation : {spec::Activation::silu, spec::Activation::gelu, spec::Activation::gelu_new})
    for (const auto& [first, second] :
         {std::pair{gate, up}, {gate.contiguous(), up.contiguous()}, {gate, at::Tensor()}}) {
      const at::Tensor given = random({5, 24});
      const at::Tensor alone = row_ops().activate_gradient(activation, first, second, given.clone()).gate;
      const GatedGradient found = row_ops().activate_gradient(activation, first, second, given);
      EXPECT_TRUE(at::equal(found.activated, row_ops().activate(activation, first, second)));
      EXPECT_TRUE(at::equal(found.gate, alone));
    }
}

TEST_P(LearningOperations, RotationTurnsPairsAndBack) {
  for (const std::int64_t size : {16, 64, 80}) {
    const at::Tensor angles = at::randn({7, size / 2}), x = random({7, 3 * size});
    const at::Tensor cosines = at::cos(angles).to(GetParam().device), sines = at::sin(angles).to(GetParam().device);
    const auto halves = wide(x).view({7, 3, size}).chunk(2, -1);
    const at::Tensor cosine = wide(cosines).unsqueeze(1), sine = wide(sines).unsqueeze(1);
    const at::Tensor wanted =
        at::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine}, -1).flatten(1);
    const at::Tensor turned = row_ops().rotate(x, cosines, sines);
    expect_near(wide(turned), wanted, tolerance());
    const at::Tensor back = row_ops().rotate(turned, cosines, -sines);
    expect_near(wide(back), wide(x), 2 * tolerance());
    const at::Tensor around = at::cat({x, turned, x}, 1);
    const at::Tensor apart = around.narrow(1, 3 * size, 3 * size);
    EXPECT_TRUE(at::equal(row_ops().rotate_back(apart, cosines, sines), back));
    EXPECT_TRUE(at::equal(around.narrow(1, 0, 3 * size), x) && at::equal(around.narrow(1, 6 * size, 3 * size), x));
  }
}

TEST_P(LearningOperations, GradientsOfHeadsAreTurnedBackAndJoined) {
  for (const std::int64_t size : {16, 24, 64, 80, 128}) {
    const AttentionShape shape{6, 2, size, 1, {}};
    const at::Tensor angles = at::randn({9, size / 2}).to(GetParam().device);
    const HeadSplit split{shape, {}, {}, 0, at::cos(angles), at::sin(angles)};
    const AttentionGradient heads{random({9, 6 * size}), random({9, 2 * size}), random({9, 2 * size})};
    const auto turned = [&](const at::Tensor& rows) { return row_ops().rotate(rows, split.cosines, -split.sines); };
    const at::Tensor wanted = at::cat({turned(heads.queries), turned(heads.keys), heads.values}, 1);
    EXPECT_TRUE(at::equal(row_ops().join_gradients(split, {heads.queries.clone(), heads.keys.clone(), heads.values}),
                          wanted));
  }
}

// A layout that comes again and again may be left to kernels that are made for it.
TEST_P(LearningOperations, AttentionAndItsGradientStayTheSameWhenALayoutIsUsual) {
  const std::vector<std::int64_t> lengths{160, 160, 160};
  for (const std::int64_t head_size : {64, 128}) {
    const AttentionShape shape{6, 2, head_size, 0.2, {}};
    AttentionTables tables;
    std::vector<std::int64_t> positions;
    for (std::int64_t i = 0; i < 480; ++i) positions.push_back(i % 160);
    for (const std::int64_t first : {0, 160, 320}) tables.parts.push_back({first, 160, 0, {}});
    tables.positions = numbers(positions);
    tables.single_rows = numbers({});
    const HeadRows heads{random({480, 6 * head_size}), random({480, 2 * head_size}), random({480, 2 * head_size})};
    const at::Tensor gradient = random({480, 6 * head_size});
    const auto formula = [&](const std::vector<at::Tensor>& in) { return attention_formula(shape, lengths, in); };
    const auto wanted = autograd({heads.queries, heads.keys, heads.values}, gradient, formula);
    const at::Tensor wanted_output = formula({wide(heads.queries), wide(heads.keys), wide(heads.values)});
    const int calls = GetParam().device.is_cpu() ? 1 : 260;
    at::Tensor log_sums;
    for (int call = 0; call < calls; ++call) {
      const at::Tensor output = primitives().attention(shape, tables, heads, {}, &log_sums);
      if (call > 0 && call < calls - 2) continue;
      const AttentionGradient found = primitives().attention_gradient(shape, tables, heads, output, log_sums, gradient);
      expect_near(wide(output), wanted_output, tolerance());
      expect_near(wide(found.queries), wanted[0], 2 * tolerance());
      expect_near(wide(found.keys), wanted[1], 2 * tolerance());
      expect_near(wide(found.values), wanted[2], 2 * tolerance());
    }
    if (is_hopper(GetParam().device) && GetParam().type != at::kFloat && !ops_.deterministic) {
      EXPECT_EQ(log_sums.dim(), 4) << "cuDNN was to take it";
    }
  }
}

TEST_P(LearningOperations, TheGradientOfAttentionIsAutogradsForSequencesSideBySide) {
  const std::vector<std::int64_t> lengths{5, 1, 70, 33};
  const std::int64_t rows = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  for (const std::optional<std::int64_t> window : {std::optional<std::int64_t>(), std::optional<std::int64_t>(20)}) {
    const AttentionShape shape{4, 2, 32, 0.2, window};
    AttentionTables tables;
    std::vector<std::int64_t> positions;
    for (std::int64_t first = 0; const std::int64_t length : lengths) {
      tables.parts.push_back({first, length, 0, {}});
      for (std::int64_t i = 0; i < length; ++i) positions.push_back(i);
      first += length;
    }
    tables.positions = numbers(positions);
    tables.single_rows = numbers({});
    const HeadRows heads{random({rows, 4 * 32}), random({rows, 2 * 32}), random({rows, 2 * 32})};
    const at::Tensor gradient = random({rows, 4 * 32});
    at::Tensor log_sums;
    const at::Tensor output = primitives().attention(shape, tables, heads, {}, &log_sums);
    const AttentionGradient found = primitives().attention_gradient(shape, tables, heads, output, log_sums, gradient);
    const auto wanted =
        autograd({heads.queries, heads.keys, heads.values}, gradient,
                 [&](const std::vector<at::Tensor>& in) { return attention_formula(shape, lengths, in); });
    expect_near(wide(found.queries), wanted[0], 2 * tolerance());
    expect_near(wide(found.keys), wanted[1], 2 * tolerance());
    expect_near(wide(found.values), wanted[2], 2 * tolerance());
    // What a sequence gets does not depend on those beside it.
    AttentionTables alone;
    alone.parts = {{0, 70, 0, {}}};
    alone.positions = tables.positions.narrow(0, 6, 70).contiguous();
    alone.single_rows = tables.single_rows;
    const auto own = [](const at::Tensor& all) { return all.narrow(0, 6, 70).contiguous(); };
    const HeadRows own_heads{own(heads.queries), own(heads.keys), own(heads.values)};
    at::Tensor own_sums;
    const at::Tensor own_output = primitives().attention(shape, alone, own_heads, {}, &own_sums);
    const AttentionGradient apart =
        primitives().attention_gradient(shape, alone, own_heads, own_output, own_sums, own(gradient));
    if (ops_.deterministic) {
      EXPECT_TRUE(at::equal(apart.queries, own(found.queries)) && at::equal(apart.keys, own(found.keys)) &&
                  at::equal(apart.values, own(found.values)));
    }
  }
}

TEST_P(LearningOperations, CrossEntropyGivesTheLossesOfScoringAndTheirGradientInPlace) {
  for (const std::int64_t vocabulary : {5, 1000, 50257, 151936}) {
    const at::Tensor logits = random({6, vocabulary}, 3), targets = at::randint(0, vocabulary, {6});
    const at::Tensor on_device = targets.to(GetParam().device);
    at::Tensor gradient = logits.clone();
    const at::Tensor losses = training().cross_entropy(gradient, on_device, weights(6, 0.25), 1);
    EXPECT_TRUE(at::equal(training().cross_entropy(logits, on_device, 1), losses));
    const at::Tensor chances = at::log_softmax(wide(logits), -1);
    expect_near(wide(losses), -chances.gather(1, targets.unsqueeze(1)).squeeze(1), 1e-5);
    at::Tensor wanted = at::exp(chances);
    wanted.scatter_add_(1, targets.unsqueeze(1), at::full({6, 1}, -1.0, at::kDouble));
    expect_near(wide(gradient), wanted * 0.25, tolerance() / 2);
    std::vector<TokenQuery> queries(6);
    const at::Tensor given = targets.contiguous();
    for (std::size_t i = 0; i < 6; ++i)
      queries[i].given = static_cast<std::int32_t>(given[static_cast<std::int64_t>(i)].item<std::int64_t>());
    SamplingRules rules;
    rules.log_probabilities = true;
    const auto scored = ops_.token_choice->choose(rules, logits, queries);
    const at::Tensor host = losses.to(at::kCPU);
    const bool same_bits = ops_.deterministic || GetParam().device.is_cpu();
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_NEAR(scored[i].log_probability, -host[static_cast<std::int64_t>(i)].item<float>(), same_bits ? 0 : 1e-5);
  }
}

TEST_P(LearningOperations, CrossEntropyWeighsEachRowAndDividesLogitsByATemperature) {
  for (const std::int64_t vocabulary : {5, 1000, 151936})
    for (const double temperature : {0.5, 1.0, 1.7}) {
      const at::Tensor logits = random({6, vocabulary}, 3), targets = at::randint(0, vocabulary, {6});
      const at::Tensor factors = at::tensor({0.0, 1.0, -2.0, 0.25, 1e-3, 3.0}, at::kDouble);
      at::Tensor gradient = logits.clone();
      const at::Tensor losses = training().cross_entropy(
          gradient, targets.to(GetParam().device), factors.to(at::kFloat).to(GetParam().device), temperature);
      const at::Tensor chances = at::log_softmax(wide(logits) / temperature, -1);
      expect_near(wide(losses), -chances.gather(1, targets.unsqueeze(1)).squeeze(1), 1e-5);
      at::Tensor wanted = at::exp(chances);
      wanted.scatter_add_(1, targets.unsqueeze(1), at::full({6, 1}, -1.0, at::kDouble));
      expect_near(wide(gradient), wanted * (factors / temperature).unsqueeze(1), 6 * tolerance());
      EXPECT_TRUE(at::equal(training().cross_entropy(logits, targets.to(GetParam().device), temperature), losses));
    }
}

TEST_P(LearningOperations, CrossEntropyGivesEntropiesAndWhatTheyAddToTheGradient) {
  for (const std::int64_t vocabulary : {5, 1000, 9000})
    for (const double temperature : {0.5, 1.0, 1.7}) {
      at::Tensor logits = random({6, vocabulary}, 3);
      logits[5][1].fill_(-INFINITY);
      const at::Tensor targets = at::randint(2, vocabulary, {6}), on_device = targets.to(GetParam().device);
      const at::Tensor factors = at::tensor({0.0, 1.0, -2.0, 0.25, 1e-3, 3.0}, at::kDouble);
      const at::Tensor entropy_factors = at::tensor({1.0, 0.0, 0.5, -0.25, 3.0, 0.01}, at::kDouble);
      const auto bring = [&](const at::Tensor& numbers) { return numbers.to(at::kFloat).to(GetParam().device); };
      at::Tensor gradient = logits.clone();
      const auto found =
          training().cross_entropy(gradient, on_device, bring(factors), bring(entropy_factors), temperature);
      const at::AutoGradMode recording(true);
      const at::Tensor leaf = wide(logits).detach().requires_grad_();
      const at::Tensor chances = at::log_softmax(leaf / temperature, -1);
      const at::Tensor finite = at::where(at::isfinite(chances), chances, at::zeros_like(chances));
      const at::Tensor entropies = -(at::exp(chances) * finite).sum(-1);
      const at::Tensor losses = -chances.gather(1, targets.unsqueeze(1)).squeeze(1);
      const at::Tensor total = (losses * factors).sum() - (entropies * entropy_factors).sum();
      const at::Tensor wanted = torch::autograd::grad({total}, {leaf}).front();
      expect_near(wide(found.losses), losses.detach(), 1e-5);
      expect_near(wide(found.entropies), entropies.detach(), 1e-4);
      expect_near(wide(gradient), wanted, 6 * tolerance());
      if (GetParam().device.is_cpu() || ops_.deterministic) {
        EXPECT_TRUE(at::equal(training().cross_entropy(logits, on_device, temperature), found.losses));
      }
    }
}

TEST_P(LearningOperations, CrossEntropyOfExtremeLogits) {
  for (const std::int64_t vocabulary : {5, 1000, 9000}) {
    at::Tensor logits = random({5, vocabulary});
    logits[0].fill_(3e4);
    logits[1].fill_(-3e4);
    logits[1][3].fill_(3e4);
    logits[2].fill_(-INFINITY);
    logits[2].narrow(0, 2, 2).zero_();
    logits[3].mul_(1e-6);
    logits[4][1].fill_(NAN);
    const at::Tensor targets = numbers({0, 3, 2, vocabulary - 1, 0});
    at::Tensor gradient = logits.clone();
    const at::Tensor losses = wide(training().cross_entropy(gradient, targets, weights(5, 0.25), 1));
    const at::Tensor host = targets.to(at::kCPU).narrow(0, 0, 4),
                     chances = at::log_softmax(wide(logits).narrow(0, 0, 4), -1);
    expect_near(losses.narrow(0, 0, 4), -chances.gather(1, host.unsqueeze(1)).squeeze(1), 1e-5);
    const at::Tensor wanted = at::exp(chances).scatter_add(1, host.unsqueeze(1), at::full({4, 1}, -1.0, at::kDouble));
    expect_near(wide(gradient).narrow(0, 0, 4), wanted * 0.25, tolerance() / 2);
    EXPECT_TRUE(std::isnan(losses[4].item<double>()));
  }
}

TEST_P(LearningOperations, TheSquaredSumIsThatOfTheNumbersASumStandsFor) {
  for (const std::int64_t count : {1, 255, 256, 257, 100'000}) {
    const at::Tensor values = floats({count});
    const GradientSum sum = holding(values);
    const double wanted = held(sum).square().sum().item<double>();
    const at::Tensor found = training().squared_sum(sum);
    EXPECT_EQ(found.scalar_type(), at::kDouble);
    EXPECT_NEAR(found.item<double>(), wanted, 1e-12 * wanted);
    EXPECT_TRUE(at::equal(found, training().squared_sum(sum)));
  }
}

// torch.optim.AdamW, in float64.
TEST_P(LearningOperations, AdamWTakesTorchsSteps) {
  for (const std::int64_t count : {1, 37, 5000}) {
    const at::Tensor parameter = state(count), first = at::zeros_like(parameter), second = at::zeros_like(parameter);
    at::Tensor p = wide(parameter), m = at::zeros_like(p), v = at::zeros_like(p);
    for (std::int64_t step = 1; step <= 20; ++step) {
      const GradientSum sum = holding(floats({count}, step % 3 == 0 ? 1e-5 : 3.0));
      const AdamWStep rule{1e-2, 0.9, 0.95, 1e-8, 0.1, step, 0.5};
      training().adamw(parameter, first, second, sum, rule);
      const at::Tensor g = held(sum) * 0.5;
      p = p * (1 - rule.rate * rule.decay);
      m = m * rule.beta1 + g * (1 - rule.beta1);
      v = v * rule.beta2 + g * g * (1 - rule.beta2);
      const auto steps = static_cast<double>(step);
      const at::Tensor divisor = v.sqrt() / std::sqrt(1 - std::pow(rule.beta2, steps)) + rule.epsilon;
      p = p - m / divisor * (rule.rate / (1 - std::pow(rule.beta1, steps)));
    }
    expect_near(wide(parameter), p, state_tolerance());
    expect_near(wide(first), m, state_tolerance());
    expect_near(wide(second), v, state_tolerance());
  }
}

TEST_P(LearningOperations, AStepHasTheSameBitsHoweverAParameterIsCut) {
  const at::Tensor before = state(1003);
  const GradientSum sum = holding(floats({1003}));
  const auto stepped = [&](const std::vector<std::int64_t>& cuts) {
    const at::Tensor parameter = before.clone(), first = at::zeros_like(before), second = at::zeros_like(before);
    const at::Tensor momentum = at::ones_like(before);
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const auto part = [&](const at::Tensor& all) { return all.narrow(0, cuts[i], cuts[i + 1] - cuts[i]); };
      const GradientSum own{part(sum.values), sum.overflow};
      training().adamw(part(parameter), part(first), part(second), own, {.rate = 1e-2, .decay = 0.1, .step = 3});
      training().sgd(part(parameter), part(momentum), own, {.rate = 1e-2, .momentum = 0.9, .decay = 0.1});
    }
    return at::cat({parameter, first, second, momentum});
  };
  EXPECT_TRUE(at::equal(stepped({0, 1003}), stepped({0, 1, 18, 400, 1003})));
}

CodedMoment coded_zeros(std::int64_t count, at::Device device) {
  const auto on = at::TensorOptions().device(device);
  return {at::zeros({count}, on.dtype(at::kByte)),
          at::zeros({(count + coded_moment_block - 1) / coded_moment_block}, on.dtype(at::kFloat))};
}

// On a GPU, too: it divides and takes roots as the CPU does.
TEST_P(LearningOperations, AdamWOfCodedMomentsHasTheBitsOfACpu) {
  DeviceOps cpu = std::move(*make_device_ops({}));
  for (const std::int64_t count : {1, 255, 256, 5000}) {
    const at::Tensor parameter = state(count), wanted = parameter.cpu().clone();
    const CodedMoment first = coded_zeros(count, GetParam().device), second = coded_zeros(count, GetParam().device);
    const CodedMoment cpu_first = coded_zeros(count, at::kCPU), cpu_second = coded_zeros(count, at::kCPU);
    for (std::int64_t step = 1; step <= 20; ++step) {
      const GradientSum sum = holding(floats({count}, step % 3 == 0 ? 1e-5 : 3.0));
      const GradientSum cpu_sum{sum.values.cpu(), sum.exact() ? sum.overflow.cpu() : at::Tensor()};
      const AdamWStep rule{1e-2, 0.9, 0.95, 1e-8, 0.1, step, 0.5};
      training().adamw(parameter, first, second, sum, rule);
      cpu.training->adamw(wanted, cpu_first, cpu_second, cpu_sum, rule);
    }
    EXPECT_TRUE(at::equal(parameter.cpu(), wanted)) << count;
    for (const auto& [found, same] : {std::pair(first, cpu_first), std::pair(second, cpu_second)}) {
      EXPECT_TRUE(at::equal(found.codes.cpu(), same.codes)) << count;
      EXPECT_TRUE(at::equal(found.scales.cpu(), same.scales)) << count;
    }
  }
}

TEST_P(LearningOperations, CodedMomentsOfAnotherParameterAreABug) {
  const at::Tensor parameter = state(600);
  const CodedMoment moment = coded_zeros(600, GetParam().device), other = coded_zeros(300, GetParam().device);
  EXPECT_THROW(training().adamw(parameter, moment, other, new_sum({600}), {}), std::invalid_argument);
  EXPECT_THROW(training().adamw(parameter, CodedMoment{moment.scales, moment.codes}, moment, new_sum({600}), {}),
               std::invalid_argument);
}

// torch.optim.SGD, in float64.
TEST_P(LearningOperations, SgdTakesTorchsStepsWithMomentumAndWithout) {
  for (const double momentum : {0.0, 0.9}) {
    const at::Tensor parameter = state(333), buffer = momentum > 0 ? at::empty_like(parameter) : at::Tensor();
    at::Tensor p = wide(parameter), b;
    for (int step = 0; step < 10; ++step) {
      const GradientSum sum = holding(floats({333}));
      training().sgd(parameter, buffer, sum, {0.01, momentum, 0.1, step == 0, 2.0});
      const at::Tensor g = held(sum) * 2 + p * 0.1;
      b = step == 0 ? g : b * momentum + g;
      p = p - b * 0.01;
    }
    expect_near(wide(parameter), p, state_tolerance());
  }
}

class Bfloat16States : public LearningOperations {
 protected:
  // torch rounds a product here and there that is not rounded here. Where that falls on a boundary of bfloat16, which
  // is rare, the neighbour is stored.
  static void expect_torchs(const at::Tensor& found, const at::Tensor& wanted) {
    EXPECT_LE(found.ne(wanted).sum().item<std::int64_t>(), found.numel() / 1000);
    const at::Tensor apart = (wide(found) - wide(wanted)).abs();
    EXPECT_TRUE(apart.le(wide(wanted).abs() * 0x1p-7 + 1e-6).all().item<bool>());
  }
};

TEST_P(Bfloat16States, TakeTheStepsOfTorchsFusedAdamW) {
  constexpr std::int64_t count = 40'000;
  const at::Tensor parameter = state(count), first = at::zeros_like(parameter), second = at::zeros_like(parameter);
  for (std::int64_t step = 1; step <= 10; ++step) {
    // Each step from the same numbers.
    at::Tensor p = parameter.clone(), m = first.clone(), v = second.clone();
    const GradientSum sum = holding(floats({count}, step % 3 == 0 ? 1e-5 : 3.0));
    training().adamw(parameter, first, second, sum, {0.0137, 0.8937, 0.9471, 1e-8, 0.1213, step, 1});
    const at::Tensor number = at::full({}, static_cast<double>(step), at::kFloat).to(GetParam().device);
    at::_fused_adamw_({p}, {sum.values.clone()}, {m}, {v}, {}, {number}, 0.0137, 0.8937, 0.9471, 0.1213, 1e-8, false,
                      false);
    expect_torchs(parameter, p);
    expect_torchs(first, m);
    expect_torchs(second, v);
  }
}

// torch's operations one by one on float32, rounded when they are stored: its fused SGD leaves many elements of
// bfloat16 tensors on a CPU as they were. With rounder factors many sums would lie on a boundary of bfloat16.
TEST_P(Bfloat16States, TakeTheStepsOfSgdInFloat32) {
  constexpr std::int64_t count = 40'000;
  const at::Tensor parameter = state(count), momentum = at::zeros_like(parameter);
  for (int step = 0; step < 5; ++step) {
    const GradientSum sum = holding(floats({count}));
    const at::Tensor p = parameter.to(at::kFloat), g = sum.values.to(at::kFloat) + p * 0.137F;
    const at::Tensor b = step == 0 ? g : momentum.to(at::kFloat) * 0.91F + g;
    training().sgd(parameter, momentum, sum, {0.0123, 0.91, 0.137, step == 0, 1});
    expect_torchs(parameter, (p - b * 0.0123F).to(at::kBFloat16));
    expect_torchs(momentum, b.to(at::kBFloat16));
  }
}

// The scale of clipping does not go through bfloat16.
TEST_P(Bfloat16States, ScaleGradientsInFloat32) {
  const at::Tensor parameter = state(5000), momentum = at::zeros_like(parameter);
  const GradientSum sum = holding(floats({5000}));
  training().sgd(parameter, momentum, sum, {0, 0.9, 0, true, 1.0 / 3});
  EXPECT_TRUE(at::equal(momentum, (sum.values.to(at::kFloat) * (1.0F / 3)).to(at::kBFloat16)));
}

TEST_P(Bfloat16States, AreOfOneType) {
  const at::Tensor narrow = state(5), wide_state = floats({5});
  const GradientSum sum = holding(floats({5})), wide_sum{floats({5}), {}};
  EXPECT_THROW(training().adamw(narrow, narrow, narrow, wide_sum, {}), std::invalid_argument);
  EXPECT_THROW(training().adamw(wide_state, wide_state, wide_state, sum, {}), std::invalid_argument);
  EXPECT_THROW(training().adamw(narrow, wide_state, narrow, sum, {}), std::invalid_argument);
  EXPECT_THROW(training().sgd(narrow, wide_state, sum, {}), std::invalid_argument);
}

// What is added to a sum of bfloat16 at a time is not rounded before: of small terms none is lost.
TEST_P(Bfloat16States, SumsTakeManySmallTermsAtOnce) {
  const at::Tensor gradient = at::full({600, 3}, 0x1p-7, at::TensorOptions(GetParam().device).dtype(GetParam().type));
  GradientSum rows = new_sum({3}), by_index = new_sum({2, 3}), product = new_sum({3, 1});
  for (const GradientSum& sum : {rows, by_index, product}) sum.values.fill_(4);
  training().add_rows(rows, gradient);
  training().add_rows_at(by_index, numbers(std::vector<std::int64_t>(600, 1)), gradient);
  const std::vector<std::int64_t> sequences{100, 500};
  training().add_product(product, gradient, at::ones({600, 1}, gradient.options()), sequences);
  const at::Tensor wanted = at::full({3}, 8.6875, at::kDouble);  // 4 + 600/128
  EXPECT_TRUE(at::equal(held(rows), wanted));
  EXPECT_TRUE(at::equal(held(by_index)[1], wanted) && at::equal(held(by_index)[0], at::full({3}, 4.0, at::kDouble)));
  EXPECT_TRUE(at::equal(held(product).flatten(), wanted));
}

TEST_P(LearningOperations, AWeightTakesItsNumbersFromTheMasters) {
  const at::Tensor values = floats({70, 40});
  const Weight weight = primitives().new_weight(70, 40, GetParam().type);
  training().assign(weight, values);
  const at::Tensor rows = primitives().take_rows(weight, numbers({0, 1, 33, 69}));
  EXPECT_TRUE(at::equal(rows, values.to(GetParam().type).index_select(0, numbers({0, 1, 33, 69}))));
}

INSTANTIATE_TEST_SUITE_P(OnEveryDevice, LearningOperations, testing::ValuesIn(devices()), name_of);
INSTANTIATE_TEST_SUITE_P(OnEveryDevice, ExactSums, testing::ValuesIn(devices({Sums::exact})), name_of);
INSTANTIATE_TEST_SUITE_P(OnEveryDevice, Bfloat16States, testing::ValuesIn(devices({Sums::rounded})), name_of);

}  // namespace
}  // namespace muster::tensor
