#include "tensor/arithmetic.hpp"

#include <malloc.h>

#include "kernels/thread_team.hpp"
#include "tensor/cpu_primitives.hpp"
#include "tensor/gpu_arithmetic.hpp"

namespace muster::tensor {
namespace {

// The memory of a large tensor stays with the process, for the next one: given back to the system, each of its pages
// costs a fault when it is used again.
void keep_freed_memory() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

}  // namespace

Result<Arithmetic> make_arithmetic(const ArithmeticWish& wish) {
  if (wish.device.is_cuda()) return make_gpu_arithmetic(wish);
  if (wish.attention != spec::Attention::sdpa)
    return Error{Error::Kind::bad_input, "system.attn_impl: CPU ranks have one attention, muster's own, which is sdpa",
                 "leave system.attn_impl out, or write sdpa"};
  if (wish.keeps_memory) keep_freed_memory();
  const auto team = std::make_shared<kernels::ThreadTeam>(wish.threads);
  return Arithmetic{wish.device,
                    false,
                    true,
                    make_cpu_primitives(team),
                    make_cpu_pointwise(team),
                    make_cpu_token_choice(team),
                    make_cpu_learning(team)};
}

}  // namespace muster::tensor
