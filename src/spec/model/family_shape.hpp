// How the families' modules are laid out; build_shape chooses among them.
#pragma once

#include "spec/model/model_shape.hpp"

namespace muster::spec {

// llama, mistral, qwen2 and qwen3: rotary positions, gated feed-forward, one normalisation weight.
ModelShape build_rotary_shape(const ModelConfig& config, ElementType dtype);

ModelShape build_gpt2_shape(const ModelConfig& config, ElementType dtype);

}  // namespace muster::spec
