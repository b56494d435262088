// How modules are laid out and named; build_shape chooses among them.
#pragma once

#include "spec/model/model_shape.hpp"

namespace muster::spec {

ModelShape build_llama_shape(const ModelConfig& config, ElementType dtype);

ModelShape build_gpt2_shape(const ModelConfig& config, ElementType dtype);

// What comes after the inner model: the head that predicts tokens, and the one that scores, by this name where it is alone.
void add_heads(ShapeBuilder& builder, const ModelConfig& config, ElementType dtype, TensorId embedding,
               std::string_view score_name);

}  // namespace muster::spec
