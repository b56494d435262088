#include "model/parameter_roles.hpp"

#include <stdexcept>

namespace muster::model {
namespace {

struct MatrixSize {
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
};

MatrixSize matrix_size(const spec::ModelShape& shape, spec::TensorId id) {
  const auto& sizes = shape.at(id).dimensions.sizes;
  return shape.is_transposed(id) ? MatrixSize{sizes[1], sizes[0]} : MatrixSize{sizes[0], sizes[1]};
}

Parameter::Piece whole_vector(const spec::ModelShape& shape, spec::TensorId id) {
  return {shape.path(id), shape.at(id).elements()};
}

}  // namespace

spec::TensorId ParameterRoles::required(spec::TensorRole role) const {
  const auto id = shape_.find(role, layer_);
  if (!id) throw std::logic_error("the model's shape lacks a tensor that its configuration asks for");
  return *id;
}

ParameterList::NumberedWeight ParameterRoles::weight(spec::TensorRole role) {
  const spec::TensorId id = required(role);
  const MatrixSize size = matrix_size(shape_, id);
  return list_.weight(shape_.path(id), size.outputs, size.inputs);
}

Linear ParameterRoles::linear(std::initializer_list<spec::TensorRole> roles) {
  std::vector<Parameter::Piece> weights, biases;
  for (const spec::TensorRole role : roles) {
    const spec::TensorId id = required(role);
    weights.push_back({shape_.path(id), matrix_size(shape_, id).outputs});
    if (const auto bias = shape_.find(role, layer_, true)) biases.push_back(whole_vector(shape_, *bias));
  }
  if (!biases.empty() && biases.size() != weights.size())
    throw std::logic_error("layers that read the same input all have a bias, or none has");
  const spec::TensorId first = required(*roles.begin());
  return list_.linear(weights, biases, matrix_size(shape_, first).inputs, shape_.is_transposed(first));
}

Norm ParameterRoles::norm(spec::TensorRole role) {
  Norm norm;
  norm.weight = list_.vector({whole_vector(shape_, required(role))}, norm.weight_id);
  if (const auto bias = shape_.find(role, layer_, true))
    norm.bias = list_.vector({whole_vector(shape_, *bias)}, norm.bias_id);
  return norm;
}

}  // namespace muster::model
