// A stand-in for NVIDIA's libnvidia-ml.so.1 that serves the GPUs of an inventory file, so that the real loader runs on
// machines without a GPU. Read at nvmlInit:
//   MUSTER_NVML_STUB_INVENTORY  the file; without it there is no driver
//   MUSTER_NVML_STUB_FAIL       a comma list of failures:
//     init=N, count=N           that call returns code N
//     handle=I:N                nvmlDeviceGetHandleByIndex of GPU I returns code N
//     lost=I                    GPU I is lost when its memory is asked for, and from then on
//     lost_handle=I             GPU I is lost from the start
//     unsupported=FACT          NVML_ERROR_NOT_SUPPORTED; FACT as in the inventory file (power, mig, processes, ...)
//     denied=FACT               NVML_ERROR_NO_PERMISSION
//     hang                      nvmlInit never returns
//     refused_version           nvmlDeviceGetMemoryInfo_v2 is there and refuses its argument
// Compiled twice: with MUSTER_NVML_STUB_OLD it has only what drivers had before 2017.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/text.hpp"
#include "gpu/cpu_list.hpp"
#include "gpu/multiprocessor.hpp"
#include "gpu/nvml_library.hpp"
#include "gpu/pci_address.hpp"
#include "testing/nvml_stub_machine.hpp"

#define NVML extern "C" __attribute__((visibility("default"))) Return

namespace muster::gpu::nvml {
namespace {

constexpr int bits_per_word = 64;

std::string index_text(Device device) { return std::to_string(number(device->gpu->facts.index)); }

Return give_text(std::string_view text, char* characters, unsigned length) {
  if (text.size() >= length) return Return::insufficient_size;
  std::memcpy(characters, text.data(), text.size());
  characters[text.size()] = '\0';
  return Return::success;
}

Return give_bits(const std::vector<int>& numbers, unsigned size, unsigned long* words) {
  std::fill_n(words, size, 0ul);
  for (const int one : numbers) {
    if (static_cast<unsigned>(one) >= size * bits_per_word) return Return::insufficient_size;
    words[one / bits_per_word] |= 1ul << (one % bits_per_word);
  }
  return Return::success;
}

Bytes to_bytes(const std::optional<ByteCount>& bytes) { return bytes ? static_cast<Bytes>(bytes->value) : 0; }

Return memory_of(Device device, MemoryWithReserved& memory) {
  if (machine() && machine()->fails("lost", index_text(device))) device->lost = true;
  if (device->gpu->lost) device->lost = true;
  if (const Return code = obstacle(device, "memory"); code != Return::success) return code;
  const auto& total = device->instance ? device->instance->memory_total : device->gpu->facts.memory_total;
  if (!total) return Return::not_supported;
  memory.total = to_bytes(total);
  if (device->instance) {
    memory.free = memory.total;
    return Return::success;
  }
  const GpuReading& reading = device->gpu->reading;
  memory.reserved = to_bytes(reading.memory_reserved);
  memory.free = to_bytes(reading.memory_free);
  memory.used = reading.memory_used ? to_bytes(reading.memory_used) : memory.total - memory.free - memory.reserved;
  return Return::success;
}

void fill(OldProcess& record, const GpuProcess& process) {
  record.pid = static_cast<unsigned>(process.pid);
  record.memory = process.memory ? to_bytes(process.memory) : bytes_not_available;
}

[[maybe_unused]] void fill(Process& record, const GpuProcess& process) {
  record = {static_cast<unsigned>(process.pid), process.memory ? to_bytes(process.memory) : bytes_not_available, ~0u,
            ~0u};
}

// Those that compute are also listed among those that draw, as the driver does with some.
enum class Kind { computes, draws, shares };

template <class Record>
Return list_processes(Device device, unsigned* count, Record* records, Kind kind) {
  if (const Return code = obstacle(device, "processes"); code != Return::success) return code;
  std::vector<const GpuProcess*> listed;
  for (const GpuProcess& process : device->gpu->processes)
    if (kind == Kind::draws || (kind == Kind::computes && !process.graphics)) listed.push_back(&process);
  const unsigned room = *count;
  *count = static_cast<unsigned>(listed.size());
  if (*count > room) return Return::insufficient_size;
  for (unsigned i = 0; i < *count; ++i) fill(records[i], *listed[i]);
  return Return::success;
}

Return give_pci(Device device, PciInfo* info, std::size_t size) {
  return answer(device, "pci_bus_id", device->gpu->facts.pci_bus_id, [&](const std::string& text) {
    const PciAddress address = parse_pci_address(text).value();
    PciInfo all{};
    std::snprintf(all.bus_id_legacy, sizeof all.bus_id_legacy, "%.15s", sysfs_name(address).c_str());
    all.domain = address.domain;
    all.bus = address.bus;
    all.device = address.device;
    std::snprintf(all.bus_id, sizeof all.bus_id, "%s", to_string(address).c_str());
    std::memcpy(info, &all, size);
  });
}

Return handle(unsigned index, Device* device) {
  if (!machine()) return Return::uninitialized;
  if (index >= machine()->devices.size()) return Return::invalid_argument;
  const std::string text = std::to_string(index);
  if (machine()->fails("lost_handle", text)) return Return::gpu_is_lost;
  for (const auto& [key, value] : machine()->failures)
    if (key == "handle" && value.starts_with(text + ":")) return Return{std::atoi(value.c_str() + text.size() + 1)};
  *device = machine()->devices[index].get();
  return Return::success;
}

Return count_devices(unsigned* count) {
  if (!machine()) return Return::uninitialized;
  if (const Return code = machine()->code_of("count"); code != Return::success) return code;
  *count = static_cast<unsigned>(machine()->devices.size());
  return Return::success;
}

}  // namespace

NVML nvmlInit() { return start(); }
NVML nvmlShutdown() {
  machine().reset();
  return Return::success;
}
extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(Return code) {
  switch (code) {
    case Return::driver_not_loaded:
      return "Driver Not Loaded";
    case Return::no_permission:
      return "Insufficient Permissions";
    case Return::versions_differ:
      return "Driver/library version mismatch";
    case Return::gpu_is_lost:
      return "GPU is lost";
    default:
      return "Unknown Error";
  }
}
NVML nvmlDeviceGetCount(unsigned* count) { return count_devices(count); }
NVML nvmlDeviceGetHandleByIndex(unsigned index, Device* device) { return handle(index, device); }
NVML nvmlSystemGetDriverVersion(char* text, unsigned length) {
  if (!machine()->snapshot.driver_version) return Return::not_supported;
  return give_text(*machine()->snapshot.driver_version, text, length);
}
NVML nvmlDeviceGetUUID(Device device, char* text, unsigned length) {
  if (const Return code = obstacle(device, "uuid"); code != Return::success) return code;
  const auto uuid = device->instance ? std::optional(device->instance->uuid) : device->gpu->facts.uuid;
  return uuid ? give_text(uuid->text, text, length) : Return::gpu_is_lost;
}
NVML nvmlDeviceGetName(Device device, char* text, unsigned length) {
  if (const Return code = obstacle(device, "name"); code != Return::success) return code;
  const auto& name = device->instance ? device->instance->name : device->gpu->facts.name;
  return name ? give_text(*name, text, length) : Return::not_supported;
}
NVML nvmlDeviceGetPciInfo_v2(Device device, PciInfo* info) { return give_pci(device, info, 52); }
NVML nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  return answer(device, "compute_capability", device->gpu->facts.compute_capability, [&](ComputeCapability capability) {
    *major = capability.major;
    *minor = capability.minor;
  });
}
NVML nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  MemoryWithReserved all{};
  const Return code = memory_of(device, all);
  if (code == Return::success) *memory = {all.total, all.free, all.used + all.reserved};
  return code;
}
NVML nvmlDeviceGetUtilizationRates(Device device, Utilization* percent) {
  return answer(device, "utilization", device->gpu->reading.utilization, [&](int busy) {
    *percent = {static_cast<unsigned>(busy),
                static_cast<unsigned>(device->gpu->reading.memory_utilization.value_or(0))};
  });
}
NVML nvmlDeviceGetTemperature(Device device, int, unsigned* celsius) {
  return answer(device, "temperature", device->gpu->reading.temperature,
                [&](int value) { *celsius = static_cast<unsigned>(value); });
}
NVML nvmlDeviceGetPowerUsage(Device device, unsigned* milliwatts) {
  return answer(device, "power", device->gpu->reading.power,
                [&](double watts) { *milliwatts = static_cast<unsigned>(std::lround(watts * 1000)); });
}
NVML nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned* milliwatts) {
  return answer(device, "power_limit", device->gpu->reading.power_limit,
                [&](double watts) { *milliwatts = static_cast<unsigned>(std::lround(watts * 1000)); });
}
NVML nvmlDeviceGetClockInfo(Device device, int domain, unsigned* megahertz) {
  const GpuReading& reading = device->gpu->reading;
  return answer(device, domain == 1 ? "clock_sm" : "clock_memory",
                domain == 1 ? reading.clock_sm : reading.clock_memory,
                [&](int value) { *megahertz = static_cast<unsigned>(value); });
}
NVML nvmlDeviceGetTotalEccErrors(Device device, int kind, int counter, unsigned long long* count) {
  if (counter != 0) return Return::invalid_argument;
  const GpuReading& reading = device->gpu->reading;
  return answer(device, kind == 0 ? "ecc_corrected" : "ecc_uncorrected",
                kind == 0 ? reading.ecc_corrected : reading.ecc_uncorrected,
                [&](std::int64_t value) { *count = static_cast<unsigned long long>(value); });
}
NVML nvmlDeviceGetCpuAffinity(Device device, unsigned size, unsigned long* words) {
  if (const Return code = obstacle(device, "cpu_affinity"); code != Return::success) return code;
  if (!device->gpu->facts.cpu_affinity) return Return::not_supported;
  return give_bits(parse_cpu_list(*device->gpu->facts.cpu_affinity).value(), size, words);
}
NVML nvmlDeviceGetTopologyCommonAncestor(Device a, Device b, unsigned* level) {
  if (const Return code = obstacle(a, "links"); code != Return::success) return code;
  const auto link = find_link(machine()->snapshot.links, a->gpu->facts.index, b->gpu->facts.index);
  if (!link) return Return::not_supported;
  switch (link->kind) {
    case LinkKind::pix:
      *level = 10;
      break;
    case LinkKind::pxb:
      *level = 20;
      break;
    case LinkKind::phb:
      *level = 30;
      break;
    case LinkKind::node:
      *level = 40;
      break;
    case LinkKind::nvlink:  // in addition to NVLink there is always a path over PCI
    case LinkKind::sys:
      *level = 50;
      break;
  }
  return Return::success;
}
NVML nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count, OldProcess* records) {
  return list_processes(device, count, records, Kind::computes);
}
NVML nvmlDeviceGetGraphicsRunningProcesses(Device device, unsigned* count, OldProcess* records) {
  return list_processes(device, count, records, Kind::draws);
}

#ifndef MUSTER_NVML_STUB_OLD
namespace {

// Where each NVLink of a GPU ends: at a peer, or, when the peers need more links than a GPU has, at a switch.
std::vector<const Gpu*> link_ends(const Gpu& gpu) {
  std::vector<const Gpu*> ends;
  int widest = 0;
  for (const Link& link : machine()->snapshot.links) {
    if (link.kind != LinkKind::nvlink || (link.a != gpu.facts.index && link.b != gpu.facts.index)) continue;
    const GpuIndex peer = link.a == gpu.facts.index ? link.b : link.a;
    const auto found = std::ranges::find(machine()->snapshot.gpus, peer, [](const Gpu& g) { return g.facts.index; });
    ends.insert(ends.end(), static_cast<std::size_t>(std::max(1, link.lanes)), &*found);
    widest = std::max(widest, link.lanes);
  }
  if (ends.size() > most_links) ends.assign(static_cast<std::size_t>(widest), nullptr);
  return ends;
}

}  // namespace

NVML nvmlInit_v2() { return start(); }
NVML nvmlDeviceGetCount_v2(unsigned* count) { return count_devices(count); }
NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) { return handle(index, device); }
NVML nvmlSystemGetCudaDriverVersion_v2(int* version) {
  const auto& text = machine()->snapshot.cuda_version;
  const std::vector<std::string> parts = split(text.value_or(""), '.');
  if (parts.size() != 2) return Return::not_supported;
  *version = std::atoi(parts[0].c_str()) * 1000 + std::atoi(parts[1].c_str()) * 10;
  return Return::success;
}
NVML nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) { return give_pci(device, info, sizeof *info); }
NVML nvmlDeviceGetMemoryInfo_v2(Device device, MemoryWithReserved* memory) {
  if (memory->version != MemoryWithReserved::expected_version) return Return::argument_version_mismatch;
  if (machine() && machine()->fails("refused_version", "")) return Return::argument_version_mismatch;
  return memory_of(device, *memory);
}
NVML nvmlDeviceGetNumGpuCores(Device device, unsigned* cores) {
  const GpuFacts& facts = device->gpu->facts;
  return answer(device, "multiprocessor_count", facts.multiprocessor_count, [&](int count) {
    *cores = static_cast<unsigned>(count * cores_per_multiprocessor(facts.compute_capability.value()).value());
  });
}
NVML nvmlDeviceGetRemappedRows(Device device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                               unsigned* failed) {
  return answer(device, "row_remap_pending", device->gpu->reading.row_remap_pending, [&](bool value) {
    *corrected = *uncorrected = 0;
    *pending = value ? 1 : 0;
    *failed = device->gpu->reading.row_remap_failed.value_or(false) ? 1 : 0;
  });
}
NVML nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  if (const Return code = obstacle(device, "mig"); code != Return::success) return code;
  *current = *pending = device->gpu->facts.mig_mode ? 1 : 0;
  return Return::success;
}
NVML nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned* count) {
  if (const Return code = obstacle(device, "mig"); code != Return::success) return code;
  *count = 14;
  return Return::success;
}
NVML nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device* instance) {
  if (const Return code = obstacle(device, "mig"); code != Return::success) return code;
  // Places with an odd number stay empty, as after instances were destroyed.
  const auto& instances = device->gpu->facts.mig_instances;
  if (index % 2 == 1 || index / 2 >= instances.size()) return Return::not_found;
  for (const auto& handle : machine()->instances)
    if (handle->instance == &instances[index / 2]) *instance = handle.get();
  return Return::success;
}
NVML nvmlDeviceGetGpuInstanceId(Device device, unsigned* id) {
  if (!device->instance) return Return::invalid_argument;
  *id = static_cast<unsigned>(device->instance->gpu_instance);
  return Return::success;
}
NVML nvmlDeviceGetComputeInstanceId(Device device, unsigned* id) {
  if (!device->instance) return Return::invalid_argument;
  *id = static_cast<unsigned>(device->instance->compute_instance);
  return Return::success;
}
NVML nvmlDeviceGetMemoryAffinity(Device device, unsigned size, unsigned long* words, unsigned) {
  if (const Return code = obstacle(device, "numa_node"); code != Return::success) return code;
  if (!device->gpu->facts.numa_node) return Return::not_supported;
  return give_bits({*device->gpu->facts.numa_node}, size, words);
}
NVML nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned* active) {
  if (const Return code = obstacle(device, "links"); code != Return::success) return code;
  const auto ends = link_ends(*device->gpu);
  if (ends.empty()) return Return::not_supported;
  *active = link < ends.size() ? 1 : 0;
  return Return::success;
}
NVML nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, PciInfo* info) {
  if (const Return code = obstacle(device, "links"); code != Return::success) return code;
  const auto ends = link_ends(*device->gpu);
  if (link >= ends.size()) return Return::invalid_argument;
  *info = {};
  info->domain = 0xffff;
  info->bus = 0xff;
  if (ends[link] == nullptr) return Return::success;
  DeviceHandle peer{ends[link], nullptr, false};
  return give_pci(&peer, info, sizeof *info);
}
NVML nvmlDeviceGetP2PStatus(Device a, Device b, int capability, int* status) {
  if (const Return code = obstacle(a, "links"); code != Return::success) return code;
  const auto link = find_link(machine()->snapshot.links, a->gpu->facts.index, b->gpu->facts.index);
  *status = capability == 2 && link && link->kind == LinkKind::nvlink ? 0 : 5;  // 5: not supported
  return Return::success;
}
NVML nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, Process* records) {
  return list_processes(device, count, records, Kind::computes);
}
NVML nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned* count, Process* records) {
  return list_processes(device, count, records, Kind::draws);
}
NVML nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, unsigned* count, Process* records) {
  return list_processes(device, count, records, Kind::shares);
}
#endif

}  // namespace muster::gpu::nvml
