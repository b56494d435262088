// The three names of a GPU, which are never mixed up: where it sits, which one it is, and how a process sees it.
#pragma once

#include <compare>
#include <string>

namespace muster::gpu {

enum class GpuIndex : int {};      // position on this machine, in PCI bus order (nvidia-smi's number)
enum class VisibleIndex : int {};  // position in the mask a process inherited (the number in cuda:N)

// The identity that survives reboots and re-cabling: "GPU-8932f937-...", or "MIG-..." for an instance.
struct GpuUuid {
  std::string text;
  auto operator<=>(const GpuUuid&) const = default;
};

constexpr int number(GpuIndex index) { return static_cast<int>(index); }
constexpr int number(VisibleIndex index) { return static_cast<int>(index); }

}  // namespace muster::gpu
