// The three names of a GPU, which are never mixed up: where it sits, which one it is, and how a process sees it.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

// A GPU as a request names it: by its place in the mask, or by its UUID or the beginning of it.
class GpuName {
 public:
  GpuName(VisibleIndex index) : name_(index) {}  // NOLINT: an index is a name
  // What a user typed: a whole number is a VisibleIndex.
  explicit GpuName(std::string_view word);

  bool is_of(VisibleIndex index, const std::optional<GpuUuid>& uuid) const;
  std::string text() const;
  bool operator==(const GpuName&) const = default;

 private:
  std::variant<VisibleIndex, std::string> name_;
};

std::vector<GpuName> gpu_names(const std::vector<std::string>& words);
std::vector<std::string> texts_of(const std::vector<GpuName>& names);

}  // namespace muster::gpu
