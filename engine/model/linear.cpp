#include "model/linear.hpp"

namespace muster::model {

void Linear::add_gradients(tensor::Arithmetic& arithmetic, const Pass& pass, const at::Tensor& input,
                           const at::Tensor& output_gradient, Residence& residence) const {
  tensor::Learning& learning = *arithmetic.learning;
  if (const auto sum = residence.gradient(weight_id); sum.wanted())
    learning.add_product(sum, output_gradient, input, pass.sequence_rows);
  if (bias.defined())
    if (const auto sum = residence.gradient(bias_id); sum.wanted()) learning.add_rows(sum, output_gradient);
}

}  // namespace muster::model
