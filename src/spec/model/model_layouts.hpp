// How modules are laid out and named; build_shape chooses among them.
#pragma once

#include "spec/model/model_shape.hpp"

namespace muster::spec {

ModelShape build_llama_shape(const ModelConfig& config, ElementType dtype);

ModelShape build_gpt2_shape(const ModelConfig& config, ElementType dtype);

}  // namespace muster::spec
