#include "model/linear.hpp"

namespace muster::model {

void Linear::add_gradients(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& input,
                           const at::Tensor& output_gradient, ParameterAccess& access) const {
  tensor::TrainingOps& training = *ops.training;
  if (const auto sum = access.gradient(weight_id); sum.wanted())
    training.add_product(sum, output_gradient, input, pass.sequence_rows);
  if (bias.defined())
    if (const auto sum = access.gradient(bias_id); sum.wanted()) training.add_rows(sum, output_gradient);
}

}  // namespace muster::model
