// Declares parameters by what they do in the model. Its shape says what they are called, how large they are and which
// way round.
#pragma once

#include <initializer_list>
#include <optional>

#include "model/norm.hpp"
#include "model/parameter_loader.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::model {

class RoleLoader {
 public:
  // layer: absent for what lies outside the layers. Both must outlive this.
  RoleLoader(ParameterLoader& loader, const spec::ModelShape& shape, std::optional<std::int64_t> layer = std::nullopt)
      : loader_(loader), shape_(shape), layer_(layer) {}

  bool has(spec::TensorRole role) const { return shape_.find(role, layer_).has_value(); }
  // Each throws where the shape has no such role: shape and configuration are made from the same thing.
  ParameterLoader::NumberedWeight weight(spec::TensorRole role);
  // Layers that read the same input, one below the other.
  Linear linear(std::initializer_list<spec::TensorRole> roles);
  Norm norm(spec::TensorRole role);

 private:
  spec::TensorId required(spec::TensorRole role) const;

  ParameterLoader& loader_;
  const spec::ModelShape& shape_;
  std::optional<std::int64_t> layer_;
};

}  // namespace muster::model
