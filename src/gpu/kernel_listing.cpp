#include "gpu/kernel_listing.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <map>
#include <string>
#include <string_view>

#include "system/file_descriptor.hpp"
#include "system/files.hpp"
#include "base/text.hpp"
#include "gpu/pci_address.hpp"

namespace muster::gpu {
namespace {

namespace fs = std::filesystem;

// "GPU UUID: \t GPU-86ff…" → the value of "GPU UUID".
std::map<std::string, std::string> read_information(std::string_view text) {
  std::map<std::string, std::string> information;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    information.emplace(trim(std::string_view(line).substr(0, colon)), trim(std::string_view(line).substr(colon + 1)));
  }
  return information;
}

bool is_known_uuid(std::string_view uuid) {
  return uuid.starts_with("GPU-") && uuid.size() == 40 && uuid.find('?') == std::string_view::npos;
}

bool has_mig_instances(const fs::path& driver) {
  std::error_code failure;
  for (fs::directory_iterator gpus(driver / "capabilities", failure); !failure && gpus != fs::directory_iterator();
       gpus.increment(failure)) {
    if (!gpus->path().filename().string().starts_with("gpu")) continue;
    std::error_code unreadable;
    if (!fs::is_empty(gpus->path() / "mig", unreadable) && !unreadable) return true;
  }
  return false;
}

// A control group may forbid a device that the listing shows; then the driver does not count it.
enum class Access { allowed, forbidden, unknown };
Access access_to(const fs::path& device) {
  const FileDescriptor file(::open(device.c_str(), O_RDWR | O_CLOEXEC));
  if (file) return Access::allowed;
  return errno == EPERM || errno == EACCES || errno == ENOENT ? Access::forbidden : Access::unknown;
}

}  // namespace

std::optional<std::vector<Gpu>> list_from_kernel(const fs::path& root) {
  const fs::path driver = root / "proc/driver/nvidia";
  std::error_code failure;
  fs::directory_iterator folders(driver / "gpus", failure);
  if (failure || has_mig_instances(driver)) return std::nullopt;
  std::map<PciAddress, Gpu> by_place;
  for (; folders != fs::directory_iterator(); folders.increment(failure)) {
    if (failure) return std::nullopt;
    const auto text = read_file(folders->path() / "information");
    const auto place = parse_pci_address(folders->path().filename().string());
    if (!text || !place) return std::nullopt;
    auto information = read_information(*text);
    if (!is_known_uuid(information["GPU UUID"]) || information["Device Minor"].empty()) return std::nullopt;
    const Access access = access_to(root / fmt::format("dev/nvidia{}", information["Device Minor"]));
    if (access == Access::unknown) return std::nullopt;
    if (access == Access::forbidden || information["GPU Excluded"] == "Yes") continue;
    Gpu gpu;
    gpu.facts.uuid = GpuUuid{information["GPU UUID"]};
    gpu.facts.name = information["Model"];
    gpu.facts.pci_bus_id = to_string(*place);
    by_place.emplace(*place, std::move(gpu));
  }
  std::vector<Gpu> gpus;
  for (auto& [place, gpu] : by_place) {
    gpu.facts.index = static_cast<GpuIndex>(gpus.size());
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace muster::gpu
