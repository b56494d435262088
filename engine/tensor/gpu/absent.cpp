#include "tensor/gpu_arithmetic.hpp"

namespace muster::tensor {

Result<Arithmetic> make_gpu_arithmetic(const ArithmeticWish&) {
  return Error{Error::Kind::refused, "this muster-worker was built with a torch that has no CUDA",
               "install a CUDA build of torch and build again, or compute on the CPU: --device cpu"};
}

}  // namespace muster::tensor
