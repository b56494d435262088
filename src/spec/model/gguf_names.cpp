#include "spec/model/gguf_names.hpp"

#include <fmt/format.h>

#include "spec/model/families.hpp"

namespace muster::spec {
namespace {

// GGUF's word for a part of a block, or of the whole model; "" for what it does not have.
std::string_view part_name(TensorRole role) {
  using enum TensorRole;
  switch (role) {
    case embedding:
      return "token_embd";
    case position_embedding:
      return "position_embd";
    case attention_norm:
      return "attn_norm";
    case query:
      return "attn_q";
    case key:
      return "attn_k";
    case value:
      return "attn_v";
    case query_key_value:
      return "attn_qkv";
    case query_norm:
      return "attn_q_norm";
    case key_norm:
      return "attn_k_norm";
    case attention_output:
      return "attn_output";
    case feed_forward_norm:
      return "ffn_norm";
    case gate:
      return "ffn_gate";
    case up:
      return "ffn_up";
    case down:
      return "ffn_down";
    case final_norm:
      return "output_norm";
    case head:
      return "output";
    case score:
    case other:
      break;
  }
  return {};
}

}  // namespace

std::string gguf_name(const ModelShape& shape, TensorId id) {
  const TensorShape& tensor = shape.at(id);
  const std::string block = tensor.layer ? fmt::format("blk.{}.", *tensor.layer) : "";
  return fmt::format("{}{}.{}", block, part_name(tensor.role), tensor.name);
}

GgufOrder gguf_order(const ModelShape& shape, TensorId id, Family family) {
  if (shape.is_transposed(id)) return GgufOrder::transposed;
  const TensorRole role = shape.at(id).role;
  const bool rotates = role == TensorRole::query || role == TensorRole::key;
  return rotates && row_of(family).gguf.interleaves_heads ? GgufOrder::interleaved : GgufOrder::same;
}

Dimensions gguf_dimensions(const ModelShape& shape, TensorId id) {
  Dimensions dimensions = shape.at(id).dimensions;
  if (shape.is_transposed(id)) std::swap(dimensions.sizes[0], dimensions.sizes[1]);
  return dimensions;
}

}  // namespace muster::spec
