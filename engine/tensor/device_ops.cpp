#include "tensor/device_ops.hpp"

#include <malloc.h>

#include "kernels/thread_team.hpp"
#include "tensor/cpu_primitives.hpp"
#include "tensor/gpu_device_ops.hpp"

namespace muster::tensor {
namespace {

// The memory of a large tensor stays with the process, for the next one: given back to the system, each of its pages
// costs a fault when it is used again.
void keep_freed_memory() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

}  // namespace

Result<DeviceOps> make_device_ops(const DeviceOptions& options) {
  if (options.device.is_cuda()) return make_gpu_device_ops(options);
  if (options.attention != spec::Attention::sdpa)
    return Error{Error::Kind::bad_input, "system.attn_impl: CPU ranks have one attention, muster's own, which is sdpa",
                 "leave system.attn_impl out, or write sdpa"};
  if (options.keeps_memory) keep_freed_memory();
  const auto team = std::make_shared<kernels::ThreadTeam>(options.threads);
  return DeviceOps{options.device,
                    false,
                    true,
                    make_cpu_primitives(team),
                    make_cpu_row_ops(team),
                    make_cpu_token_choice(team),
                    make_cpu_training_ops(team)};
}

}  // namespace muster::tensor
