// What a machine's GPUs are and do at one moment. Plain values; what a driver does not report is absent, never 0.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_count.hpp"
#include "gpu/identity.hpp"

namespace muster::gpu {

struct ComputeCapability {
  int major = 0;
  int minor = 0;
  auto operator<=>(const ComputeCapability&) const = default;
};

// A slice of a GPU in MIG mode.
struct MigInstance {
  GpuUuid uuid;  // new form: "MIG-<uuid>"
  int gpu_instance = 0;
  int compute_instance = 0;
  std::optional<ByteCount> memory_total;
  std::optional<std::string> name;
  bool operator==(const MigInstance&) const = default;
};

// Facts that do not change while the machine runs.
struct GpuFacts {
  GpuIndex index{};
  std::optional<GpuUuid> uuid;  // absent only for a GPU that was lost before it could be asked
  std::optional<std::string> pci_bus_id;
  std::optional<std::string> name;
  std::optional<ComputeCapability> compute_capability;
  std::optional<int> multiprocessor_count;
  std::optional<ByteCount> memory_total;
  std::optional<int> numa_node;
  std::optional<std::string> cpu_affinity;  // "0-15,32-47"
  bool mig_mode = false;
  std::vector<MigInstance> mig_instances;
  bool operator==(const GpuFacts&) const = default;
};

// Facts that change from moment to moment.
struct GpuReading {
  // By processes, device-wide. Driver-reserved memory is in it only where a driver cannot tell it (reserved is absent).
  std::optional<ByteCount> memory_used;
  std::optional<ByteCount> memory_reserved;     // by the driver and firmware
  std::optional<ByteCount> memory_free;         // what an allocation can still get; plan on this, never on total - used
  std::optional<int> utilization;               // percent
  std::optional<int> memory_utilization;        // percent of bandwidth time
  std::optional<int> temperature;               // Celsius
  std::optional<double> power;                  // W
  std::optional<double> power_limit;            // W
  std::optional<int> clock_sm;                  // MHz
  std::optional<int> clock_memory;              // MHz
  std::optional<std::int64_t> ecc_corrected;    // since the driver was loaded
  std::optional<std::int64_t> ecc_uncorrected;  // since the driver was loaded
  std::optional<bool> row_remap_pending;
  std::optional<bool> row_remap_failed;
  std::vector<int> recent_xids;  // error codes the kernel log holds for this GPU, oldest first
  bool operator==(const GpuReading&) const = default;
};

// A process that uses a GPU. Inside a container the driver may report a number of another pid namespace: then user and
// command are absent (holder unknown), not guessed.
struct GpuProcess {
  pid_t pid = 0;
  std::optional<std::string> user;
  std::optional<std::string> command;
  std::optional<ByteCount> memory;
  bool exiting = false;   // dying: what it uses will be free
  bool graphics = false;  // it draws and does not compute: the driver lists it among the graphics processes alone
  bool operator==(const GpuProcess&) const = default;
};

struct Gpu {
  GpuFacts facts;
  GpuReading reading;
  std::vector<GpuProcess> processes;
  bool lost = false;                              // fell off the bus: listed, never selected
  std::optional<std::string> declared_unhealthy;  // an inventory file's own verdict
  bool operator==(const Gpu&) const = default;
};

// How two GPUs of one machine reach each other, best first; nvidia-smi's classes.
enum class LinkKind { nvlink, pix, pxb, phb, node, sys };

struct Link {
  GpuIndex a{};
  GpuIndex b{};
  LinkKind kind = LinkKind::sys;
  int lanes = 0;  // NVLink only: how many links, nvidia-smi's NV#; 0 when that is not known
  bool operator==(const Link&) const = default;
};

// Why a machine shows no GPU: separate states because the remedies differ.
enum class DriverState {
  ready,       // GPUs can be listed
  no_driver,   // no NVIDIA driver library on this machine
  no_devices,  // the driver answers, and lists no device
};

struct Snapshot {
  DriverState driver = DriverState::ready;
  std::string source;                         // "NVML", or the inventory file's path
  std::string explanation;                    // for no_driver and no_devices: what was looked for
  std::optional<std::string> driver_version;  // "580.159.03"
  std::optional<std::string> cuda_version;    // "13.0"
  std::vector<Gpu> gpus;                      // by index, ascending
  std::vector<Link> links;                    // each pair once; a pair that is not here is not known
  bool operator==(const Snapshot&) const = default;
};

// The words of the inventory file and of `muster gpus --json`, which reads back what it wrote.
struct LinkWord {
  std::string_view text;
  LinkKind kind;
};
inline constexpr std::array link_words{LinkWord{"nvlink", LinkKind::nvlink}, LinkWord{"pix", LinkKind::pix},
                                       LinkWord{"pxb", LinkKind::pxb},       LinkWord{"phb", LinkKind::phb},
                                       LinkWord{"node", LinkKind::node},     LinkWord{"sys", LinkKind::sys}};
struct DriverWord {
  std::string_view text;
  DriverState state;
};
inline constexpr std::array driver_words{DriverWord{"ready", DriverState::ready},
                                         DriverWord{"no_driver", DriverState::no_driver},
                                         DriverWord{"no_devices", DriverState::no_devices}};

// The link between two GPUs, in either order.
std::optional<Link> find_link(const std::vector<Link>& links, GpuIndex a, GpuIndex b);

// "NV18", "PIX", "SYS".
std::string to_string(const Link& link);

}  // namespace muster::gpu
