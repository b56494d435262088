// Declares parameters by what they do in the model. Its shape says what they are called, how large they are and which
// way round.
#pragma once

#include <initializer_list>
#include <optional>

#include "model/norm.hpp"
#include "model/parameter_list.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::model {

class ParameterRoles {
 public:
  // layer: absent for what lies outside the layers. Both must outlive this.
  ParameterRoles(ParameterList& list, const spec::ModelShape& shape, std::optional<std::int64_t> layer = std::nullopt)
      : list_(list), shape_(shape), layer_(layer) {}

  bool has(spec::TensorRole role) const { return shape_.find(role, layer_).has_value(); }
  // Each throws where the shape has no such role: shape and configuration are made from the same thing.
  ParameterList::NumberedWeight weight(spec::TensorRole role);
  // Layers that read the same input, one below the other.
  Linear linear(std::initializer_list<spec::TensorRole> roles);
  Norm norm(spec::TensorRole role);

 private:
  spec::TensorId required(spec::TensorRole role) const;

  ParameterList& list_;
  const spec::ModelShape& shape_;
  std::optional<std::int64_t> layer_;
};

}  // namespace muster::model
