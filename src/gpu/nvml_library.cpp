#include "gpu/nvml_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace muster::gpu::nvml {
namespace {

constexpr const char* library_name = "libnvidia-ml.so.1";

// Where drivers put it when the loader's own search does not find it: Kubernetes device plugins, WSL, Debian and
// Ubuntu, Red Hat, NixOS.
constexpr std::array folders{"/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                             "/run/opengl-driver/lib"};

template <class Function>
bool bind(const SharedLibrary& library, Function*& slot, std::initializer_list<const char*> newest_first) {
  for (const char* name : newest_first)
    if (void* address = library.symbol(name)) {
      slot = reinterpret_cast<Function*>(address);
      return true;
    }
  return false;
}

void bind_processes(const SharedLibrary& library, ProcessCalls& calls, std::string_view name) {
  const std::string first(name), second = first + "_v2", third = first + "_v3";
  if (!bind(library, calls.list, {third.c_str(), second.c_str()})) bind(library, calls.list_old, {first.c_str()});
}

// Names of the basic calls that are not there.
std::vector<std::string> bind_basic(const SharedLibrary& library, Calls& calls) {
  std::vector<std::string> missing;
  const auto need = [&](auto& slot, std::initializer_list<const char*> names) {
    if (!bind(library, slot, names)) missing.emplace_back(*names.begin());
  };
  need(calls.init, {"nvmlInit_v2", "nvmlInit"});
  need(calls.device_count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  need(calls.device_by_index, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  need(calls.uuid, {"nvmlDeviceGetUUID"});
  need(calls.memory, {"nvmlDeviceGetMemoryInfo"});
  return missing;
}

void bind_optional(const SharedLibrary& library, Calls& calls) {
  bind(library, calls.error_text, {"nvmlErrorString"});
  bind(library, calls.driver_version, {"nvmlSystemGetDriverVersion"});
  bind(library, calls.cuda_version, {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"});
  bind(library, calls.name, {"nvmlDeviceGetName"});
  bind(library, calls.pci_info, {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2"});
  bind(library, calls.compute_capability, {"nvmlDeviceGetCudaComputeCapability"});
  bind(library, calls.core_count, {"nvmlDeviceGetNumGpuCores"});
  bind(library, calls.memory_with_reserved, {"nvmlDeviceGetMemoryInfo_v2"});
  bind(library, calls.utilization, {"nvmlDeviceGetUtilizationRates"});
  bind(library, calls.temperature, {"nvmlDeviceGetTemperature"});
  bind(library, calls.power, {"nvmlDeviceGetPowerUsage"});
  bind(library, calls.power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  bind(library, calls.clock, {"nvmlDeviceGetClockInfo"});
  bind(library, calls.ecc_errors, {"nvmlDeviceGetTotalEccErrors"});
  bind(library, calls.remapped_rows, {"nvmlDeviceGetRemappedRows"});
  bind(library, calls.mig_mode, {"nvmlDeviceGetMigMode"});
  bind(library, calls.mig_most_devices, {"nvmlDeviceGetMaxMigDeviceCount"});
  bind(library, calls.mig_device_by_index, {"nvmlDeviceGetMigDeviceHandleByIndex"});
  bind(library, calls.gpu_instance, {"nvmlDeviceGetGpuInstanceId"});
  bind(library, calls.compute_instance, {"nvmlDeviceGetComputeInstanceId"});
  bind(library, calls.memory_affinity, {"nvmlDeviceGetMemoryAffinity"});
  bind(library, calls.cpu_affinity, {"nvmlDeviceGetCpuAffinity"});
  bind(library, calls.common_ancestor, {"nvmlDeviceGetTopologyCommonAncestor"});
  bind(library, calls.link_state, {"nvmlDeviceGetNvLinkState"});
  bind(library, calls.link_remote, {"nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo"});
  bind(library, calls.peer_status, {"nvmlDeviceGetP2PStatus"});
  bind_processes(library, calls.compute_processes, "nvmlDeviceGetComputeRunningProcesses");
  bind_processes(library, calls.graphics_processes, "nvmlDeviceGetGraphicsRunningProcesses");
  bind_processes(library, calls.shared_processes, "nvmlDeviceGetMPSComputeRunningProcesses");
}

}  // namespace

std::optional<SharedLibrary> SharedLibrary::load(const std::filesystem::path& path, std::string& reason) {
  if (void* handle = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE)) return SharedLibrary(handle);
  const char* words = ::dlerror();
  reason = words != nullptr ? words : "the loader gives no reason";
  return std::nullopt;
}

SharedLibrary::SharedLibrary(SharedLibrary&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

SharedLibrary& SharedLibrary::operator=(SharedLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

void* SharedLibrary::symbol(const char* name) const { return ::dlsym(handle_, name); }

std::optional<SharedLibrary> find_library(const std::optional<std::filesystem::path>& file, std::string& explanation) {
  std::string reason;
  if (file) {
    if (auto library = SharedLibrary::load(*file, reason)) return library;
    explanation = fmt::format("no NVIDIA driver library: {}", reason);
    return std::nullopt;
  }
  if (auto library = SharedLibrary::load(library_name, reason)) return library;
  std::vector<std::string> looked{fmt::format("the loader's search path ({})", reason)};
  for (const char* folder : folders) {
    const std::filesystem::path candidate = std::filesystem::path(folder) / library_name;
    std::error_code unreadable;
    if (!std::filesystem::exists(candidate, unreadable)) {
      looked.emplace_back(folder);
    } else if (auto library = SharedLibrary::load(candidate, reason)) {
      return library;
    } else {
      looked.push_back(fmt::format("{} ({})", folder, reason));
    }
  }
  explanation = fmt::format("no NVIDIA driver library: {} is not in {}", library_name, join(looked, ", "));
  return std::nullopt;
}

Result<Calls> resolve(const SharedLibrary& library) {
  Calls calls;
  if (const auto missing = bind_basic(library, calls); !missing.empty())
    return Error{Error::Kind::failed,
                 fmt::format("the NVIDIA driver is too old: its {} has no {}", library_name, join(missing, ", ")),
                 "install driver 450 or newer"};
  bind_optional(library, calls);
  return calls;
}

std::string describe(const Calls& calls, Return code) {
  const char* words = calls.error_text != nullptr ? calls.error_text(code) : nullptr;
  return fmt::format("{} ({})", words != nullptr ? words : "NVML error", static_cast<int>(code));
}

}  // namespace muster::gpu::nvml
