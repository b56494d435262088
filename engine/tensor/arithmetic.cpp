#include "tensor/arithmetic.hpp"

#include "kernels/thread_team.hpp"
#include "tensor/cpu_primitives.hpp"
#include "tensor/gpu_arithmetic.hpp"

namespace muster::tensor {

Result<Arithmetic> make_arithmetic(const ArithmeticWish& wish) {
  if (wish.device.is_cuda()) return make_gpu_arithmetic(wish);
  if (wish.attention != spec::Attention::sdpa)
    return Error{Error::Kind::bad_input, "system.attn_impl: CPU ranks have one attention, muster's own, which is sdpa",
                 "leave system.attn_impl out, or write sdpa"};
  const auto team = std::make_shared<kernels::ThreadTeam>(wish.threads);
  return Arithmetic{
      wish.device, false, true, make_cpu_primitives(team), make_cpu_pointwise(team), make_cpu_token_choice(team)};
}

}  // namespace muster::tensor
