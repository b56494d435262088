// The numbers of a norm.
#pragma once

#include "model/parameter.hpp"

namespace muster::model {

struct Norm {
  at::Tensor weight;
  at::Tensor bias;  // of layer norms
  ParameterId weight_id{};
  ParameterId bias_id{};
};

}  // namespace muster::model
