// How long it takes from a config.json to a model's shape, and what large trees cost: shape_bench.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "spec/model/model_config.hpp"
#include "spec/model/model_shape.hpp"

namespace {

using namespace muster::spec;

constexpr const char* llama_405b =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16384, "intermediate_size": 53248,
        "num_hidden_layers": 126, "num_attention_heads": 128, "num_key_value_heads": 8, "vocab_size": 128256,
        "max_position_embeddings": 131072, "rope_theta": 500000.0, "torch_dtype": "bfloat16", "rope_scaling":
        {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
         "rope_type": "llama3"}})";

double median_milliseconds(int runs, const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

void report(const char* what, std::size_t modules, double milliseconds) {
  fmt::print("{{\"bench\": \"shape\", \"what\": \"{}\", \"modules\": {}, \"milliseconds\": {:.3f}}}\n", what, modules,
             milliseconds);
}

}  // namespace

int main() {
  std::size_t modules = 0;
  const double small = median_milliseconds(101, [&] {
    const ModelConfig config = parse_model_config(llama_405b, "config.json").value();
    modules = build_shape(config, ElementType::bfloat16).modules.size();
  });
  report("config.json to shape, Llama 405B", modules, small);

  ModelConfig large = parse_model_config(llama_405b, "config.json").value();
  large.layers = 200'000 / 13;  // modules of one block
  ModelShape shape;
  report("build", build_shape(large, ElementType::bfloat16).modules.size(),
         median_milliseconds(11, [&] { shape = build_shape(large, ElementType::bfloat16); }));
  std::size_t letters = 0;
  const double paths = median_milliseconds(11, [&] {
    for (std::size_t i = 0; i < shape.modules.size(); ++i) letters += shape.path(ModuleId{i}).size();
  });
  report("every path", shape.modules.size(), paths);
  return letters == 0 ? 1 : 0;
}
