#include "spec/model/gguf_names.hpp"

#include <fmt/format.h>

#include <map>

namespace muster::spec {
namespace {

// GGUF's word for a part of a block, or of the whole model; "" for what it does not have.
std::string_view part_name(std::string_view part) {
  static const std::map<std::string_view, std::string_view> names{
      {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},
      {"lm_head", "output"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", "ffn_norm"},
      {"transformer.wte", "token_embd"},
      {"transformer.wpe", "position_embd"},
      {"transformer.ln_f", "output_norm"},
      {"ln_1", "attn_norm"},
      {"attn.c_attn", "attn_qkv"},
      {"attn.c_proj", "attn_output"},
      {"ln_2", "ffn_norm"},
      {"mlp.c_fc", "ffn_up"},
      {"mlp.c_proj", "ffn_down"},
  };
  const auto entry = names.find(part);
  return entry == names.end() ? std::string_view{} : entry->second;
}

}  // namespace

std::string gguf_name(std::string_view path) {
  std::string block;
  for (const std::string_view list : {"model.layers.", "transformer.h."})
    if (path.starts_with(list)) {
      path.remove_prefix(list.size());
      const std::size_t dot = path.find('.');
      block = fmt::format("blk.{}.", path.substr(0, dot));
      path.remove_prefix(dot + 1);
    }
  const std::size_t dot = path.rfind('.');
  return fmt::format("{}{}{}", block, part_name(path.substr(0, dot)), path.substr(dot));
}

GgufOrder gguf_order(const ModelShape& shape, TensorId id, Family family) {
  if (shape.is_transposed(id)) return GgufOrder::transposed;
  const std::string& owner = shape.at(shape.at(id).owner).name;
  const bool rotates = owner == "q_proj" || owner == "k_proj";
  return rotates && (family == Family::llama || family == Family::mistral) ? GgufOrder::interleaved : GgufOrder::same;
}

Dimensions gguf_dimensions(const ModelShape& shape, TensorId id) {
  Dimensions dimensions = shape.at(id).dimensions;
  if (shape.is_transposed(id)) std::swap(dimensions.sizes[0], dimensions.sizes[1]);
  return dimensions;
}

}  // namespace muster::spec
