// The grammar of CUDA_VISIBLE_DEVICES: what a process sees, and the mask a child is given. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "gpu/snapshot.hpp"

namespace muster::gpu {

// One device behind a mask; its position in the list is its VisibleIndex.
struct VisibleDevice {
  GpuIndex gpu{};
  std::optional<std::size_t> mig;  // which of the GPU's instances, when it is in MIG mode
  std::optional<GpuUuid> uuid;     // of the instance or the GPU; absent only for a lost GPU
  std::string entry;               // how a mask names it in the form of the mask it came from
  bool operator==(const VisibleDevice&) const = default;
};

// What CUDA itself makes of a mask.
struct CudaView {
  std::vector<VisibleDevice> devices;
  std::optional<std::string> cut;  // why CUDA drops part of the list without a word; absent when all of it counts
};

// Exactly CUDA's reading. Absent text: the variable is not set. Integers are positions in PCI bus order, parsed like C
// ("1gpu2" is 1); "GPU-" and "MIG-" entries may be shortened while they are unique; the first entry decides the kind.
CudaView read_as_cuda(std::optional<std::string_view> text, std::span<const Gpu> gpus);

// The devices a process may use or hand on. Where CUDA would silently drop entries, the list is refused with the
// reason. Not set: every GPU, those in MIG mode as their instances. "", "-1" and Slurm's "NoDevFiles": none. Several
// MIG instances are accepted, because each child can be given one.
Result<std::vector<VisibleDevice>> read_mask(std::optional<std::string_view> text, std::span<const Gpu> gpus);

enum class MaskForm {
  as_inherited,  // entries as the inherited mask wrote them: many programs still parse integers
  uuid,          // unambiguous everywhere
};

// The child's mask: some of the inherited devices, in the order given. It can never name anything else.
Result<std::string> compose_mask(std::span<const VisibleDevice> inherited, std::span<const VisibleIndex> chosen,
                                 MaskForm form);

// What a child's environment must hold so that the mask means the same GPUs to CUDA as it does here.
std::vector<std::pair<std::string, std::string>> mask_environment(const std::string& mask);

}  // namespace muster::gpu
