// A model that takes no time.
#pragma once

#include "spec/model/model_config.hpp"

namespace muster::train::testing {

inline spec::ModelConfig small_model(spec::Family family = spec::Family::llama) {
  spec::ModelConfig config = spec::blank_config(family);
  config.vocabulary = 67;
  config.hidden = 48;
  config.intermediate = 80;
  config.layers = 3;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_size = 12;
  config.positions = 32;
  config.tied = true;
  return config;
}

}  // namespace muster::train::testing
