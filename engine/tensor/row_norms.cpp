#include "tensor/row_norms.hpp"

#include <algorithm>

namespace muster::tensor {
namespace {

// Numbers at a time; what is made of them takes some times their memory.
constexpr std::int64_t most_measured = std::int64_t{1} << 20;

// [rows, width] → [rows]. The upper half of the columns is added to the lower one until a single one is left: sums of
// two numbers, which every device and every vector rounds alike.
at::Tensor folded(const at::Tensor& squares) {
  for (std::int64_t width = squares.size(1); width > 1;) {
    const std::int64_t half = (width + 1) / 2;
    squares.narrow(1, 0, width - half).add_(squares.narrow(1, half, width - half));
    width = half;
  }
  return squares.select(1, 0);
}

}  // namespace

at::Tensor row_norms(Primitives& primitives, const Weight& weight, std::int64_t first_row, std::int64_t rows,
                     const std::optional<AddedProduct>& added) {
  const at::Tensor norms = at::empty({rows}, weight.storage.options().dtype(at::kFloat));
  const std::int64_t step = std::max<std::int64_t>(1, most_measured / weight.inputs);
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t count = std::min(step, rows - first);
    const at::Tensor numbers =
        primitives.numbers(weight, first_row + first, count).to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
    if (added)
      numbers.add_(primitives.linear_input_gradient(added->down, primitives.numbers(added->up, first, count))
                       .to(at::kFloat)
                       .mul_(added->scale));
    norms.narrow(0, first, count).copy_(folded(numbers.mul_(numbers)).sqrt());
  }
  return norms;
}

}  // namespace muster::tensor
