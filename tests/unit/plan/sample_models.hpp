// Models of the shapes that transformers gives them, in small.
#pragma once

#include <fmt/format.h>

#include "spec/model/model_shape.hpp"

namespace muster::plan {

// Llama: embed_tokens, layers, norm, rotary_emb (buffers alone), lm_head. Each layer 10 bytes, the rest as told.
inline spec::ModelShape small_llama(int layers, std::int64_t vocabulary, bool tied) {
  using enum spec::ElementType;
  spec::ShapeBuilder builder;
  builder.open("", "LlamaForCausalLM");
  builder.open("model", "LlamaModel");
  builder.open("embed_tokens", "Embedding");
  const auto embedding = builder.add("weight", {vocabulary}, spec::TensorKind::parameter, int8);
  builder.close();
  builder.open("layers", "ModuleList");
  for (int i = 0; i < layers; ++i) {
    builder.open(fmt::format("{}", i), "LlamaDecoderLayer");
    builder.open("mlp", "LlamaMLP");
    builder.add("weight", {7}, spec::TensorKind::parameter, int8);
    builder.close();
    builder.open("norm", "LlamaRMSNorm");
    builder.add("weight", {3}, spec::TensorKind::parameter, int8);
    builder.close();
    builder.close();
  }
  builder.close();
  builder.open("norm", "LlamaRMSNorm");
  builder.add("weight", {3}, spec::TensorKind::parameter, int8);
  builder.close();
  builder.open("rotary_emb", "LlamaRotaryEmbedding");
  builder.add("inv_freq", {2}, spec::TensorKind::derived, int8);
  builder.close();
  builder.close();
  builder.open("lm_head", "Linear");
  if (tied)
    builder.tie("weight", embedding);
  else
    builder.add("weight", {vocabulary}, spec::TensorKind::parameter, int8);
  builder.close();
  builder.close();
  return builder.finish({"LlamaDecoderLayer"});
}

inline std::vector<std::int64_t> bytes_per_tensor(const spec::ModelShape& shape) {
  std::vector<std::int64_t> bytes;
  for (const spec::TensorShape& tensor : shape.tensors)
    bytes.push_back(tensor.elements() * spec::bytes_per_element(tensor.type));
  return bytes;
}

}  // namespace muster::plan
