// Where the time of a decoding step goes on a GPU: each operation of a block, recorded many times over and played.
//
//   device_bench CONFIG BATCH CONTEXT
//
// Prints a JSON line for each operation: microseconds of one call, and terabytes a second where a weight is read.
// Weights of several layers take turns, so that none is still in the chip's cache.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "spec/model/model_source.hpp"
#include "tensor/device_ops.hpp"

#ifdef MUSTER_CUDA

#include <chrono>

#include "recorded_time.hpp"

namespace {

using namespace muster;
using Clock = std::chrono::steady_clock;
using bench::microseconds;
using bench::turns;

constexpr std::int64_t block_tokens = 64;

class DeviceBench {
 public:
  DeviceBench(const spec::ModelConfig& config, std::int64_t batch, std::int64_t context)
      : config_(config), batch_(batch), context_(context) {
    auto made = tensor::make_device_ops({at::Device(at::kCUDA, 0), 1, spec::Attention::sdpa, false});
    if (!made) throw std::runtime_error(made.error().what);
    ops_ = std::move(*made);
  }

  void run() {
    const std::int64_t hidden = config_.hidden, joined = config_.query_width() + 2 * config_.kv_width();
    product("queries, keys, values", joined, hidden, config_.qkv_bias, false);
    product("output", hidden, config_.query_width(), false, true);
    product("gate and up", 2 * config_.intermediate, hidden, false, false);
    gated_product();
    product("down", hidden, config_.intermediate, false, true);
    product("head", config_.vocabulary, hidden, false, false, 2);
    const at::Tensor rows = random({batch_, hidden}), norm = random({hidden});
    print("norm", microseconds([&](int) { ops_.rows->rms_norm(rows, norm, 1e-6); }));
    const at::Tensor gate = random({batch_, 2 * config_.intermediate});
    print("activation", microseconds([&](int) {
            ops_.rows->activate(config_.activation, gate.narrow(1, 0, config_.intermediate),
                                            gate.narrow(1, config_.intermediate, config_.intermediate));
          }));
    heads_and_attention();
    const at::Tensor logits = random({batch_, config_.vocabulary});
    const std::vector<tensor::TokenQuery> queries(static_cast<std::size_t>(batch_));
    choose("the likeliest token", {.temperature = 0}, logits, queries);
    choose("a drawn token", {.temperature = 0.8, .top_k = 50, .top_p = 0.95}, logits, queries);
  }

 private:
  static at::TensorOptions options() { return at::dtype(at::kBFloat16).device(at::kCUDA, 0); }
  static at::Tensor random(at::IntArrayRef sizes) { return at::randn(sizes, options()); }
  static at::Tensor numbers(const std::vector<std::int64_t>& values) {
    return at::tensor(values, at::kLong).to(at::Device(at::kCUDA, 0));
  }

  void print(const std::string& operation, double time, double bytes = 0) const {
    nlohmann::ordered_json line{{"operation", operation}, {"batch", batch_}, {"microseconds", time}};
    if (bytes > 0) line["terabytes_per_second"] = bytes / time * 1e-6;
    fmt::print("{}\n", line.dump());
  }

  void product(const std::string& name, std::int64_t outputs, std::int64_t inputs, bool biased, bool adds,
               int copies = turns) {
    std::vector<tensor::Weight> weights;
    for (int i = 0; i < copies; ++i) weights.push_back({outputs, inputs, at::kBFloat16, random({outputs, inputs})});
    const at::Tensor input = random({batch_, inputs}), bias = biased ? random({outputs}) : at::Tensor();
    at::Tensor sum = random({batch_, outputs});
    auto& primitives = *ops_.primitives;
    const double time = microseconds([&](int turn) {
      const tensor::Weight& weight = weights[static_cast<std::size_t>(turn % copies)];
      if (adds)
        primitives.linear_add(weight, bias, input, sum, sum);
      else
        primitives.linear(weight, bias, input);
    });
    print(name, time, static_cast<double>(outputs * inputs * 2));
  }

  void gated_product() {
    const std::int64_t outputs = 2 * config_.intermediate, inputs = config_.hidden;
    std::vector<tensor::Weight> weights;
    for (int i = 0; i < turns; ++i) weights.push_back({outputs, inputs, at::kBFloat16, random({outputs, inputs})});
    const at::Tensor input = random({batch_, inputs});
    auto& primitives = *ops_.primitives;
    if (!primitives.gated_linear(config_.activation, weights[0], {}, input).defined()) return;
    const double time = microseconds([&](int turn) {
      primitives.gated_linear(config_.activation, weights[static_cast<std::size_t>(turn)], {}, input);
    });
    print("gate, up and activation", time, static_cast<double>(outputs * inputs * 2));
  }

  void heads_and_attention() {
    const tensor::AttentionShape shape{config_.heads, config_.kv_heads, config_.head_size, 0.1, std::nullopt};
    const std::int64_t each = (context_ + block_tokens) / block_tokens, most = std::max<std::int64_t>(each, 8);
    std::vector<tensor::LayerCache> caches;
    for (int i = 0; i < turns; ++i) {
      const std::vector<std::int64_t> sizes{batch_ * each, block_tokens, config_.kv_heads, config_.head_size};
      caches.push_back({random(sizes), random(sizes)});
    }
    tensor::AttentionTables tables;
    tables.block_tokens = block_tokens;
    std::vector<std::int64_t> positions, slots, rows, blocks;
    for (std::int64_t row = 0; row < batch_; ++row) {
      tables.parts.push_back({row, 1, context_, std::vector<std::int64_t>(static_cast<std::size_t>(each), row * each)});
      positions.push_back(context_);
      slots.push_back((row * each + each - 1) * block_tokens + context_ % block_tokens);
      rows.push_back(row);
      for (std::int64_t block = 0; block < most; ++block) blocks.push_back(block < each ? row * each + block : 0);
    }
    tables.positions = numbers(positions);
    tables.slots = numbers(slots);
    tables.single_rows = numbers(rows);
    tables.single_blocks = numbers(blocks).view({batch_, most});
    const at::Tensor joined = random({batch_, (shape.heads + 2 * shape.kv_heads) * shape.head_size});
    const auto angles = at::ones({batch_, shape.head_size / 2}, options().dtype(at::kFloat));
    const tensor::HeadSplit split{shape, {}, {}, 1e-6, angles, angles};
    print("heads", microseconds([&](int turn) {
            ops_.rows->split_heads(split, joined, tables.slots, caches[static_cast<std::size_t>(turn)]);
          }));
    const tensor::HeadRows heads = ops_.rows->split_heads(split, joined, tables.slots, caches[0]);
    print("attention", microseconds([&](int turn) {
            ops_.primitives->attention(shape, tables, heads, caches[static_cast<std::size_t>(turn)], nullptr);
          }));
    block(split, tables, caches);
  }

  // All of a block one after the other, and the same without one of its operations: what each costs among the others.
  void block(const tensor::HeadSplit& split, const tensor::AttentionTables& tables,
             const std::vector<tensor::LayerCache>& caches) {
    const std::int64_t hidden = config_.hidden, joined_width = config_.query_width() + 2 * config_.kv_width();
    const auto weights = [&](std::int64_t outputs, std::int64_t inputs) {
      std::vector<tensor::Weight> made;
      for (int i = 0; i < turns; ++i)
        made.push_back({outputs, inputs, at::kBFloat16, random({outputs, inputs}) * 0.02});
      return made;
    };
    const auto joined_weights = weights(joined_width, hidden), output_weights = weights(hidden, config_.query_width()),
               gate_weights = weights(2 * config_.intermediate, hidden),
               down_weights = weights(hidden, config_.intermediate);
    const at::Tensor norm = at::ones({hidden}, options());
    at::Tensor rows = random({batch_, hidden});
    const at::Tensor any_joined = random({batch_, joined_width}),
                     any_attended = random({batch_, config_.query_width()}),
                     any_activated = random({batch_, config_.intermediate});
    auto& primitives = *ops_.primitives;
    auto& row_ops = *ops_.rows;
    tensor::HeadRows any_heads = row_ops.split_heads(split, any_joined, tables.slots, caches[0]);
    const auto measure = [&](const std::string& without) {
      const double time = microseconds([&](int turn) {
        const auto at = static_cast<std::size_t>(turn);
        const auto has = [&](const std::string& name) { return without != name; };
        const at::Tensor normed = has("norms") ? row_ops.rms_norm(rows, norm, 1e-6) : rows;
        const at::Tensor joined =
            has("queries, keys, values") ? primitives.linear(joined_weights[at], {}, normed) : any_joined;
        const tensor::HeadRows heads =
            has("heads") ? row_ops.split_heads(split, joined, tables.slots, caches[at]) : any_heads;
        const at::Tensor attended =
            has("attention") ? primitives.attention(split.shape, tables, heads, caches[at], nullptr) : any_attended;
        if (has("output")) primitives.linear_add(output_weights[at], {}, attended, rows, rows);
        const at::Tensor middle = has("norms") ? row_ops.rms_norm(rows, norm, 1e-6) : rows;
        at::Tensor activated = any_activated;
        if (has("gate, up and activation")) {
          if (has("gated in one"))
            activated = primitives.gated_linear(config_.activation, gate_weights[at], {}, middle);
          if (!has("gated in one") || !activated.defined()) {
            const at::Tensor both = primitives.linear(gate_weights[at], {}, middle);
            activated = row_ops.activate(config_.activation, both.narrow(1, 0, config_.intermediate),
                                           both.narrow(1, config_.intermediate, config_.intermediate));
          }
        }
        if (has("down")) primitives.linear_add(down_weights[at], {}, activated, rows, rows);
      });
      print(without.empty() ? "a block" : "a block without " + without, time);
    };
    for (const char* without : {"", "norms", "queries, keys, values", "heads", "attention", "output",
                                "gate, up and activation", "gated in one", "down"})
      measure(without);
  }

  // With the host's part: what is asked goes down, what was chosen comes up.
  void choose(const std::string& name, const tensor::SamplingRules& rules, const at::Tensor& logits,
              const std::vector<tensor::TokenQuery>& queries) {
    ops_.token_choice->choose(rules, logits, queries);
    constexpr int calls = 50;
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) ops_.token_choice->choose(rules, logits, queries);
    print(name, std::chrono::duration<double>(Clock::now() - start).count() / calls * 1e6);
  }

  spec::ModelConfig config_;
  std::int64_t batch_;
  std::int64_t context_;
  tensor::DeviceOps ops_;
};

}  // namespace

int main(int, char** argv) {
  const at::NoGradGuard forward_only;
  const auto description = spec::read_model(argv[1], spec::model_search_from_environment(), std::nullopt);
  if (!description) {
    fmt::print(stderr, "{}\n", description.error().what);
    return 2;
  }
  DeviceBench(description->config, std::stoll(argv[2]), std::stoll(argv[3])).run();
}

#else

int main() {
  fmt::print(stderr, "this torch has no CUDA\n");
  return 3;
}

#endif
