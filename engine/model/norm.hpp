// The numbers of a norm, under the name a checkpoint has for them.
#pragma once

#include <string>

#include "tensor/torch.hpp"

namespace muster::model {

struct Norm {
  std::string name;  // "model.layers.0.input_layernorm"
  at::Tensor weight;
  at::Tensor bias;  // of layer norms
};

}  // namespace muster::model
