// Models, workloads and questions drawn from a seed, for rules that hold for all of them.
#pragma once

#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.hpp"
#include "spec/model/quantized/packed_modules.hpp"

namespace muster::plan {

constexpr std::int64_t gibibyte = std::int64_t{1} << 30;

class Draw {
 public:
  explicit Draw(unsigned seed) : chance_(seed) {}

  std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(chance_);
  }
  bool maybe(double share) { return std::uniform_real_distribution<>(0, 1)(chance_) < share; }
  template <class Value>
  Value one_of(std::initializer_list<Value> values) {
    return *(values.begin() + between(0, std::ssize(values) - 1));
  }

 private:
  std::mt19937 chance_;
};

inline spec::ModelConfig random_config(Draw& draw) {
  using enum spec::Family;
  const spec::Family family = draw.one_of({llama, mistral, qwen2, qwen3, gpt2});
  spec::ModelConfig config = spec::blank_config(family);
  config.head_size = draw.one_of<std::int64_t>({64, 128});
  config.kv_heads = draw.between(1, 8);
  config.heads = config.kv_heads * (family == gpt2 ? 1 : draw.between(1, 6));
  config.hidden = config.heads * config.head_size;
  config.intermediate = family == gpt2 ? 4 * config.hidden : config.hidden * draw.between(2, 4);
  config.layers = draw.between(2, 40);
  config.vocabulary = draw.one_of<std::int64_t>({5003, 32000, 50257, 128256, 151936});
  config.positions = 1 << 17;
  config.tied = family == gpt2 || draw.maybe(0.4);
  if (family == gpt2) config.positions = 8192;
  return config;
}

inline std::shared_ptr<const spec::ModelDescription> described(const spec::ModelConfig& config) {
  auto model = std::make_shared<spec::ModelDescription>();
  model->name = "drawn";
  model->config = config;
  model->dtype = spec::ElementType::bfloat16;
  model->shape = spec::build_shape(config, model->dtype);
  return model;
}

// Beside every linear layer but the head.
inline Adapters adapters_of(const spec::ModelConfig& config, std::int64_t rank, double dropout) {
  return adapters_beside(spec::build_shape(config, spec::ElementType::bfloat16), {.rank = rank, .dropout = dropout})
      .value();
}

inline Workload random_training(Draw& draw) {
  using enum spec::OptimizerKind;
  Workload work;
  work.work = Work::training;
  work.implementation = draw.one_of({Implementation::transformers, Implementation::muster});
  work.mixed_precision = draw.maybe(0.4);
  work.weights = work.mixed_precision ? WeightType::float32 : draw.one_of({WeightType::float32, WeightType::bfloat16});
  work.optimizer = draw.one_of({adamw, adamw_fused, adamw_8bit, sgd, sgd_momentum});
  work.attention = draw.maybe(0.2) ? spec::Attention::eager : spec::Attention::sdpa;
  if (draw.maybe(0.4)) work.recomputation = draw.one_of({spec::Recomputation::selective, spec::Recomputation::full});
  work.exact = draw.maybe(0.2);
  work.sequence = draw.one_of<std::int64_t>({128, 777, 1024, 4096});
  work.expandable_segments = draw.maybe(0.3);
  work.micro_batch = draw.between(1, 9);
  work.accumulation = draw.one_of<std::int64_t>({1, 1, 2, 4});
  return work;
}

inline Workload random_inference(Draw& draw) {
  Workload work;
  work.implementation = draw.one_of({Implementation::transformers, Implementation::muster});
  work.weights = draw.one_of({WeightType::float32, WeightType::bfloat16});
  work.attention = draw.maybe(0.2) ? spec::Attention::eager : spec::Attention::sdpa;
  work.sequence = draw.one_of<std::int64_t>({128, 1000, 2048, 8192});
  work.new_tokens = draw.one_of<std::int64_t>({0, 1, 64, 100});
  work.micro_batch = draw.between(1, 17);
  return work;
}

inline std::vector<PlanDevice> gpus(const std::vector<std::int64_t>& bytes) {
  std::vector<PlanDevice> devices;
  for (const std::int64_t size : bytes) {
    const auto number = static_cast<int>(devices.size());
    devices.push_back({number, "GPU", "GPU-" + std::to_string(number), size, size});
  }
  return devices;
}

// Limits about the size of what is asked for, so that some fit and some do not.
inline std::vector<PlanDevice> random_gpus(Draw& draw, std::int64_t about) {
  std::vector<std::int64_t> sizes;
  const bool equal = draw.maybe(0.5);
  const std::int64_t first = about * draw.between(3, 30) / 10 + gibibyte;
  for (std::int64_t i = draw.between(1, 6); i > 0; --i)
    sizes.push_back(equal ? first : about * draw.between(3, 30) / 10 + gibibyte);
  return gpus(sizes);
}

// Linear layers of blocks in 8 bits, or in 4 with or without scales in 8.
inline std::optional<PackedWeights> random_packing(Draw& draw, const spec::ModelShape& shape) {
  if (draw.maybe(0.5)) return std::nullopt;
  const spec::PackedCode code = draw.one_of({spec::PackedCode::int8, spec::PackedCode::nf4});
  const bool doubled = code == spec::PackedCode::nf4 && draw.maybe(0.5);
  return PackedWeights{{code, 64, doubled}, spec::packed_weights(shape, {}).value()};
}

inline Question random_question(Draw& draw, Work work) {
  Question question;
  question.model = described(random_config(draw));
  question.workload = work == Work::training ? random_training(draw) : random_inference(draw);
  if (work == Work::inference) question.workload.packed = random_packing(draw, question.model->shape);
  const ModelWeight weight = weigh(question.model->shape, question.workload);
  const DeviceMemory whole = device_memory(question.model->config, weight, question.workload, Layout{},
                                           whole_model(question.model->config, weight), question.constants);
  question.devices = random_gpus(draw, work == Work::training ? whole.total() : whole.total() / 2);
  question.micro_batch = question.workload.micro_batch;
  return question;
}

}  // namespace muster::plan
