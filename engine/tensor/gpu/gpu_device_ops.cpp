#include "tensor/gpu_device_ops.hpp"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>

#include "tensor/gpu/gpu_primitives.hpp"

namespace muster::tensor {
namespace {

// Products are sums of float32: no TF32, no sums in half precision.
void forbid_coarse_sums() {
  auto& context = at::globalContext();
  context.setAllowTF32CuBLAS(false);
  context.setAllowBF16ReductionCuBLAS(false);
  context.setAllowFP16ReductionCuBLAS(false);
}

// cuDNN's attention is the fastest on Hopper; the next best takes over where it cannot.
void choose_attention(spec::Attention attention) {
  auto& context = at::globalContext();
  const bool any = attention == spec::Attention::sdpa;
  const bool flash = attention == spec::Attention::flash_attention_2;
  context.setSDPUseCuDNN(any);
  context.setSDPUseFlash(any || flash);
  context.setSDPUseMemEfficient(any);
  context.setSDPUseMath(any || attention == spec::Attention::eager);
  context.setSDPPriorityOrder({static_cast<std::int64_t>(at::SDPBackend::cudnn_attention),
                               static_cast<std::int64_t>(at::SDPBackend::flash_attention),
                               static_cast<std::int64_t>(at::SDPBackend::efficient_attention),
                               static_cast<std::int64_t>(at::SDPBackend::math)});
}

}  // namespace

Result<DeviceOps> make_gpu_device_ops(const DeviceOptions& options) {
  if (options.deterministic && options.attention != spec::Attention::sdpa)
    return Error{Error::Kind::bad_input, "system.attn_impl: deterministic mode has an attention of its own",
                 "leave system.attn_impl out, or system.deterministic"};
  forbid_coarse_sums();
  choose_attention(options.attention);
  constexpr int first_with_bfloat16 = 8;  // Ampere
  const bool bfloat16 = at::cuda::getDeviceProperties(options.device.index())->major >= first_with_bfloat16;
  return DeviceOps{options.device,
                    bfloat16,
                    options.deterministic,
                    make_gpu_primitives(options),
                    make_gpu_row_ops(),
                    make_gpu_token_choice(),
                    make_gpu_training_ops(options.deterministic)};
}

}  // namespace muster::tensor
