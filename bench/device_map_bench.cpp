// How long does it take to lay a model of 200,000 modules over 64 GPUs, by accelerate's rules and by our own?
// device_map_bench. The best of several runs of each.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <stdexcept>

#include "plan/compat_map.hpp"
#include "plan/split_units.hpp"

namespace {

using namespace muster;
using namespace muster::plan;

constexpr int blocks = 20'000;  // of ten modules each
constexpr int gpu_count = 64;
constexpr int runs = 15;

void add_linear(spec::ShapeBuilder& builder, const char* name, std::int64_t rows, std::int64_t columns) {
  builder.open(name, "Linear");
  builder.add("weight", {rows, columns}, spec::TensorKind::parameter, spec::ElementType::bfloat16);
  builder.close();
}

void add_block(spec::ShapeBuilder& builder, int number, std::int64_t width) {
  builder.open(fmt::format("{}", number), "DecoderLayer");
  builder.open("self_attn", "Attention");
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) add_linear(builder, name, 1024, 1024);
  builder.close();
  builder.open("mlp", "Mlp");
  for (const char* name : {"up_proj", "down_proj"}) add_linear(builder, name, 1024, width);
  builder.close();
  add_linear(builder, "norm", 1024, 1);
  builder.close();
}

spec::ModelShape make_model(bool tied) {
  std::mt19937 random(1);
  spec::ShapeBuilder builder;
  builder.open("", "CausalModel");
  builder.open("model", "Model");
  builder.open("embed_tokens", "Embedding");
  const auto embedding =
      builder.add("weight", {128'000, 1024}, spec::TensorKind::parameter, spec::ElementType::bfloat16);
  builder.close();
  builder.open("layers", "ModuleList");
  for (int i = 0; i < blocks; ++i) add_block(builder, i, 2048 + static_cast<std::int64_t>(random() % 2048));
  builder.close();
  add_linear(builder, "norm", 1024, 1);
  builder.close();
  builder.open("lm_head", "Linear");
  if (tied)
    builder.tie("weight", embedding);
  else
    builder.add("weight", {128'000, 1024}, spec::TensorKind::parameter, spec::ElementType::bfloat16);
  builder.close();
  builder.close();
  return builder.finish({"DecoderLayer"});
}

std::vector<std::int64_t> bytes_per_tensor(const spec::ModelShape& shape) {
  std::vector<std::int64_t> bytes;
  for (const spec::TensorShape& tensor : shape.tensors)
    bytes.push_back(tensor.elements() * spec::bytes_per_element(tensor.type));
  return bytes;
}

// Half of the GPUs are three times as large as the others, together a fifth larger than the model.
std::vector<Budget> make_budgets(std::int64_t total) {
  std::vector<Budget> budgets;
  for (int i = 0; i < gpu_count; ++i)
    budgets.push_back(
        {on_gpu(i),
         {static_cast<std::int64_t>(1.2 * static_cast<double>(total)) / (2 * gpu_count) * (i % 2 == 0 ? 1 : 3)}});
  return budgets;
}

void measure(const char* what, std::size_t size, const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, elapsed.count());
  }
  fmt::print("{{\"what\": \"{}\", \"size\": {}, \"gpus\": {}, \"best_ms\": {:.2f}, \"runs\": {}}}\n", what, size,
             gpu_count, best, runs);
}

template <class Value>
Value check(Result<Value> result) {
  if (!result) throw std::runtime_error(to_string(result.error()));
  return std::move(*result);
}

void measure_compat(const char* what, const spec::ModelShape& shape, const CompatRequest& request,
                    const std::vector<Budget>& budgets) {
  measure(what, shape.modules.size(),
          [&] { check(compat_map(shape, request, check(balanced_budgets(shape, request, budgets, false)))); });
}

void measure_optimal(const char* what, spec::ModelShape shape, bool whole, const std::vector<Budget>& budgets) {
  if (!whole) shape.whole_classes.clear();
  const auto bytes = bytes_per_tensor(shape);
  SplitRequest request;
  for (const Budget& budget : budgets) request.devices.push_back({budget.place, budget.bytes.value, 0});
  measure(fmt::format("{}, from model to map", what).c_str(), shape.modules.size(), [&] {
    const SplitUnits units = split_units(shape, bytes);
    request.units = units.units;
    request.shared = units.shared;
    const Split split = check(split_layers(request));
    to_device_map(shape, units, split, request.devices);
  });
  measure(fmt::format("{}, the split alone", what).c_str(), request.units.size(),
          [&] { check(split_layers(request)); });
}

}  // namespace

int main() {
  const spec::ModelShape shape = make_model(false);
  const spec::ModelShape tied = make_model(true);
  const auto bytes = bytes_per_tensor(shape);
  std::int64_t total = 0;
  for (const std::int64_t size : bytes) total += size;
  const std::vector<Budget> budgets = make_budgets(total);
  measure_compat("accelerate's rules, whole blocks", shape, {.whole_classes = {"DecoderLayer"}}, budgets);
  measure_compat("accelerate's rules, blocks may be split", shape, {}, budgets);
  measure_compat("accelerate's rules, tied head", tied, {.whole_classes = {"DecoderLayer"}}, budgets);
  measure_compat("transformers' rules", shape, {.rules = CompatRules::transformers, .whole_classes = {"DecoderLayer"}},
                 budgets);
  measure_optimal("optimal, whole blocks", shape, true, budgets);
  measure_optimal("optimal, tied head", tied, true, budgets);
  measure_optimal("optimal, blocks may be split", tied, false, budgets);

  SplitRequest units;
  std::mt19937 random(2);
  for (int i = 0; i < 200'000; ++i)
    units.units.push_back(
        {"", static_cast<std::int64_t>(random() % 100'000'000), static_cast<std::int64_t>(random() % 50'000'000)});
  units.shared = {{0, units.units.size() - 1, units.units.front().bytes}};
  for (const Budget& budget : make_budgets(200'000LL * 50'000'000))
    units.devices.push_back({budget.place, budget.bytes.value, budget.bytes.value / 100});
  measure("optimal, 200,000 random units with workspace and a tied pair", units.units.size(),
          [&] { check(split_layers(units)); });
}
