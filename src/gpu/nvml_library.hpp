// NVIDIA's management library, opened at run time: own declarations of the few types and calls that are used.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.hpp"

namespace muster::gpu::nvml {

// nvmlReturn_t; other codes are passed on as they are.
enum class Return : int {
  success = 0,
  uninitialized = 1,
  invalid_argument = 2,
  not_supported = 3,
  no_permission = 4,
  not_found = 6,
  insufficient_size = 7,
  driver_not_loaded = 9,
  library_not_found = 12,
  function_not_found = 13,
  gpu_is_lost = 15,
  reset_required = 16,
  versions_differ = 18,
  argument_version_mismatch = 25,
  unknown = 999,
};

struct DeviceHandle;
using Device = DeviceHandle*;
using Bytes = unsigned long long;

// The function's second version fills a shorter struct whose fields up to subsystem_id are the same.
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

struct Memory {  // first version: used contains what the driver reserves
  Bytes total, free, used;
};

struct MemoryWithReserved {  // second version: used does not contain reserved
  static constexpr unsigned expected_version = 40u | (2u << 24);
  unsigned version;
  Bytes total, reserved, free, used;
};
static_assert(sizeof(MemoryWithReserved) == 40);

struct Utilization {
  unsigned gpu, memory;  // percent
};

struct OldProcess {
  unsigned pid;
  Bytes memory;
};

struct Process {
  unsigned pid;
  Bytes memory;
  unsigned gpu_instance, compute_instance;
};

constexpr Bytes bytes_not_available = ~Bytes{0};
constexpr unsigned most_links = 18;  // NVML_NVLINK_MAX_LINKS

template <class... Arguments>
using Call = Return (*)(Arguments...);

struct ProcessCalls {
  Call<Device, unsigned*, Process*> list = nullptr;
  Call<Device, unsigned*, OldProcess*> list_old = nullptr;
};

// One pointer per call; null where this driver has no such call. The table of names is in nvml_library.cpp.
struct Calls {
  Call<> init = nullptr;
  Call<> shutdown = nullptr;
  const char* (*error_text)(Return) = nullptr;
  Call<unsigned*> device_count = nullptr;
  Call<unsigned, Device*> device_by_index = nullptr;
  Call<char*, unsigned> driver_version = nullptr;
  Call<int*> cuda_version = nullptr;  // 1000 * major + 10 * minor
  Call<Device, char*, unsigned> uuid = nullptr;
  Call<Device, char*, unsigned> name = nullptr;
  Call<Device, PciInfo*> pci_info = nullptr;
  Call<Device, int*, int*> compute_capability = nullptr;
  Call<Device, unsigned*> core_count = nullptr;
  Call<Device, MemoryWithReserved*> memory_with_reserved = nullptr;
  Call<Device, Memory*> memory = nullptr;
  Call<Device, Utilization*> utilization = nullptr;
  Call<Device, int, unsigned*> temperature = nullptr;                // sensor 0
  Call<Device, unsigned*> power = nullptr;                           // mW
  Call<Device, unsigned*> power_limit = nullptr;                     // mW, the one in force
  Call<Device, int, unsigned*> clock = nullptr;                      // 1 multiprocessors, 2 memory; MHz
  Call<Device, int, int, unsigned long long*> ecc_errors = nullptr;  // 0 corrected, 1 uncorrected; 0 since load
  Call<Device, unsigned*, unsigned*, unsigned*, unsigned*> remapped_rows = nullptr;  // two counts, pending, failed
  Call<Device, unsigned*, unsigned*> mig_mode = nullptr;                             // current, pending
  Call<Device, unsigned*> mig_most_devices = nullptr;
  Call<Device, unsigned, Device*> mig_device_by_index = nullptr;
  Call<Device, unsigned*> gpu_instance = nullptr;
  Call<Device, unsigned*> compute_instance = nullptr;
  Call<Device, unsigned, unsigned long*, unsigned> memory_affinity = nullptr;  // scope 0: node
  Call<Device, unsigned, unsigned long*> cpu_affinity = nullptr;
  Call<Device, Device, unsigned*> common_ancestor = nullptr;
  Call<Device, unsigned, unsigned*> link_state = nullptr;
  Call<Device, unsigned, PciInfo*> link_remote = nullptr;
  Call<Device, Device, int, int*> peer_status = nullptr;  // 2: over NVLink; answer 0: yes
  ProcessCalls compute_processes;
  ProcessCalls graphics_processes;
  ProcessCalls shared_processes;  // clients of the multi-process service
};

// A loaded shared library; unloaded when destroyed.
class SharedLibrary {
 public:
  // Stays in the process once it is loaded: Note [NVML stays open] in nvml_inventory.cpp.
  // Nothing when it cannot be loaded; reason then says why.
  static std::optional<SharedLibrary> load(const std::filesystem::path& path, std::string& reason);
  SharedLibrary(SharedLibrary&& other) noexcept;
  SharedLibrary& operator=(SharedLibrary&& other) noexcept;
  ~SharedLibrary();
  void* symbol(const char* name) const;  // null when there is none

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

// The driver's library: the given file, else where drivers put it. Nothing when there is none; explanation then lists
// what was looked for.
std::optional<SharedLibrary> find_library(const std::optional<std::filesystem::path>& file, std::string& explanation);

// The newest form of each call that this library has. A driver without the basic ones is an Error.
Result<Calls> resolve(const SharedLibrary& library);

// The driver's words for a code, and the code: "Unknown Error (999)".
std::string describe(const Calls& calls, Return code);

}  // namespace muster::gpu::nvml
