#include "spec/model/checkpoint_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"

namespace muster::spec {
namespace {

// The tensors by name, without the inner model's prefix.
class TensorTable {
 public:
  explicit TensorTable(const std::vector<NamedSizes>& tensors) {
    for (const NamedSizes& tensor : tensors) {
      std::string_view name = tensor.name;
      for (const std::string_view prefix : {"model.", "transformer."})
        if (name.starts_with(prefix)) {
          name.remove_prefix(prefix.size());
          break;
        }
      sizes_.emplace(name, tensor.dimensions);
    }
  }

  bool has(std::string_view name) const { return sizes_.contains(name); }

  // One size of a tensor with this many dimensions; noted when it is missing or of another rank.
  std::int64_t size(std::string_view name, std::size_t rank, std::size_t dimension) {
    const auto found = sizes_.find(name);
    if (found != sizes_.end() && found->second.rank == rank) return found->second.sizes[dimension];
    if (std::ranges::find(missing_, name) == missing_.end()) missing_.emplace_back(name);
    return 0;
  }
  const std::vector<std::string>& missing() const { return missing_; }

  // One more than the largest number after the prefix: "layers.31.mlp…" → 32.
  std::int64_t count(std::string_view prefix) const {
    std::int64_t count = 0;
    for (auto entry = sizes_.lower_bound(prefix); entry != sizes_.end() && entry->first.starts_with(prefix); ++entry) {
      const std::string_view rest = std::string_view(entry->first).substr(prefix.size());
      const auto number = parse_number<std::int64_t>(rest.substr(0, rest.find('.')));
      if (number && *number >= 0 && *number < largest::layers) count = std::max(count, *number + 1);
    }
    return count;
  }

 private:
  std::map<std::string, Dimensions, std::less<>> sizes_;
  std::vector<std::string> missing_;
};

// The usual sizes of heads, the first that divides both widths; 0 when none does.
std::int64_t usual_head_size(std::int64_t query_width, std::int64_t kv_width,
                             std::initializer_list<std::int64_t> usual) {
  for (const std::int64_t size : usual)
    if (query_width % size == 0 && kv_width % size == 0) return size;
  return 0;
}

std::string head_note(const ModelConfig& config) {
  return fmt::format(
      "without a config.json the size of heads is not known: {} is assumed, so {} heads and {} of keys",
      config.head_size, config.heads, config.kv_heads);
}

void take_heads(ModelConfig& config, std::int64_t query_width, std::int64_t kv_width) {
  if (config.head_size <= 0) return;
  config.heads = query_width / config.head_size;
  config.kv_heads = kv_width / config.head_size;
}

// Which family of Llama's layout has such tensors.
Family llama_like_family(const TensorTable& table) {
  if (table.has("layers.0.self_attn.q_norm.weight")) return Family::qwen3;
  const bool gated = table.has("layers.0.mlp.gate_proj.weight");
  if (!gated && table.has("layers.0.mlp.up_proj.weight")) return Family::arcee;
  const bool bias = table.has("layers.0.self_attn.q_proj.bias");
  return bias && !table.has("layers.0.self_attn.o_proj.bias") ? Family::qwen2 : Family::llama;
}

DerivedConfig llama_layout_config(TensorTable& table) {
  DerivedConfig derived;
  ModelConfig& config = derived.config = blank_config(llama_like_family(table));
  const std::int64_t query_width = table.size("layers.0.self_attn.q_proj.weight", 2, 0);
  const std::int64_t kv_width = table.size("layers.0.self_attn.k_proj.weight", 2, 0);
  config.output_bias = table.has("layers.0.self_attn.o_proj.bias");
  config.qkv_bias = table.has("layers.0.self_attn.q_proj.bias");
  config.mlp_bias = table.has("layers.0.mlp.down_proj.bias");
  config.vocabulary = table.size("embed_tokens.weight", 2, 0);
  config.hidden = table.size("embed_tokens.weight", 2, 1);
  const std::string_view first = config.gated ? "layers.0.mlp.gate_proj.weight" : "layers.0.mlp.up_proj.weight";
  config.intermediate = table.size(first, 2, 0);
  config.layers = table.count("layers.");
  config.positions = 2048;
  config.tied = !table.has("lm_head.weight");
  if (config.query_key_norm) {
    config.head_size = table.size("layers.0.self_attn.q_norm.weight", 1, 0);
    take_heads(config, query_width, kv_width);
  } else {
    config.head_size = usual_head_size(query_width, kv_width, {128, 64});
    take_heads(config, query_width, kv_width);
    derived.notes.push_back(head_note(config));
  }
  derived.notes.push_back(
      fmt::format("without a config.json the longest sequence is not known: {} is assumed", config.positions));
  return derived;
}

DerivedConfig gpt2_config(TensorTable& table) {
  DerivedConfig derived;
  ModelConfig& config = derived.config = blank_config(Family::gpt2);
  config.vocabulary = table.size("wte.weight", 2, 0);
  config.hidden = table.size("wte.weight", 2, 1);
  config.positions = table.size("wpe.weight", 2, 0);
  config.intermediate = table.size("h.0.mlp.c_fc.weight", 2, 1);
  config.layers = table.count("h.");
  config.tied = !table.has("lm_head.weight");
  config.head_size = usual_head_size(config.hidden, config.hidden, {64});
  take_heads(config, config.hidden, config.hidden);
  derived.notes.push_back(head_note(config));
  return derived;
}

// A head that scores lies outside of the inner model.
void take_score_head(TensorTable& table, ModelConfig& config) {
  if (!table.has("score.weight")) return;
  config.score = ScoreHead{table.has("score.bias") ? ScoreUse::tokens : ScoreUse::sequences,
                           table.size("score.weight", 2, 0)};
  config.tied = false;
}

Error config_refusal(std::string_view source, std::string what) {
  return {Error::Kind::bad_input, fmt::format("{}: {}", source, what), "put the model's config.json beside it"};
}

}  // namespace

Result<DerivedConfig> config_from_tensors(const std::vector<NamedSizes>& tensors, std::string_view source) {
  TensorTable table(tensors);
  const bool llama_layout = table.has("embed_tokens.weight");
  if (!llama_layout && !table.has("wte.weight"))
    return config_refusal(source, "there is no config.json, and the names of its tensors are not those of a known family");
  DerivedConfig derived = llama_layout ? llama_layout_config(table) : gpt2_config(table);
  take_score_head(table, derived.config);
  if (!table.missing().empty())
    return config_refusal(source, fmt::format("there is no config.json, and the model cannot be recognised from tensors without {}",
                                       join(table.missing(), ", ")));
  if (derived.config.head_size == 0)
    return config_refusal(source, "there is no config.json, and the size of the heads is not one of the usual ones");
  if (const auto wrong = contradictions(derived.config); !wrong.empty())
    return config_refusal(
        source, fmt::format("there is no config.json, and its tensors contradict each other: {}", join(wrong, "; ")));
  return derived;
}

}  // namespace muster::spec
