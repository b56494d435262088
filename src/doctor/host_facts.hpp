// Everything that `muster doctor` judges, as plain values: gathered by probe_host, judged by examine.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_count.hpp"
#include "base/result.hpp"
#include "gpu/snapshot.hpp"
#include "host/host_memory.hpp"
#include "lease/lease.hpp"
#include "sandbox/sandbox.hpp"
#include "system/instruction_sets.hpp"
#include "wire/collective_check.hpp"

namespace muster::doctor {

// What the kernel shows of NVIDIA hardware, whether or not the driver's library answers.
struct DriverFacts {
  std::optional<std::string> module_version;  // of the loaded kernel module
  std::vector<std::string> device_files;      // "/dev/nvidia0"
  std::vector<std::string> pci_devices;       // "0000:3b:00.0"
};

struct ClockFacts {
  std::chrono::seconds now{};                             // since 1970
  std::optional<std::chrono::seconds> program_written{};  // when the file of this program was
  std::chrono::milliseconds jump{};                       // system time less steady time, during the probe
  std::optional<bool> synchronised;                       // absent: the kernel does not say
};

struct FolderFacts {
  std::string purpose;  // "working folder"
  std::filesystem::path path;
  std::optional<ByteCount> free;
  std::optional<std::string> not_writable;  // why; absent: it is
};

struct NetworkFacts {
  std::optional<std::string> loopback_failure;  // absent: a byte went from one port of 127.0.0.1 to another
  std::string host_name;
  std::vector<std::string> host_addresses;        // what the name resolves to
  std::vector<std::string> local_addresses;       // those of them that are this machine's
  std::optional<std::string> resolution_failure;  // why the name does not resolve
};

struct OpenFilesFacts {
  std::uint64_t soft_limit = 0;
  std::uint64_t hard_limit = 0;
};

// What one spawned process says about itself.
struct WorkerReport {
  pid_t pid = 0;
  std::optional<std::string> mask;                  // CUDA_VISIBLE_DEVICES
  std::optional<std::string> device_order;          // CUDA_DEVICE_ORDER
  std::optional<std::vector<std::string>> visible;  // UUIDs; absent: its inventory or its mask cannot be read
  std::optional<std::string> problem;               // why
};

struct WorkerFacts {
  std::optional<int> gpu;             // absent: a CPU worker
  std::string mask;                   // what it was given
  std::vector<std::string> expected;  // the UUIDs it should see
  Result<WorkerReport> report = WorkerReport{};
};

// Two ranks of muster-worker that ran every kind of collective.
struct CollectiveFacts {
  std::string ranks;  // "2 CPU ranks"
  Result<wire::CollectiveReport> report = wire::CollectiveReport{};
  bool not_built = false;  // muster-worker is missing
};

// Ranks of muster-worker that answered prompts with a small model.
struct GenerationReport {
  int ranks = 0;  // that answered
  std::int64_t tokens = 0;
  bool same = false;  // answers equal to those of one rank, byte for byte
};

struct HostFacts {
  std::optional<std::filesystem::path> inventory_file;  // instead of the driver
  Result<gpu::Snapshot> snapshot = gpu::Snapshot{};
  DriverFacts driver;
  std::optional<std::string> mask;          // CUDA_VISIBLE_DEVICES
  std::optional<std::string> device_order;  // CUDA_DEVICE_ORDER
  std::filesystem::path lease_folder;
  Result<void> leases;
  std::map<std::string, lease::Holder> holders;  // leased UUIDs
  ClockFacts clock;
  host::MemoryFacts memory;
  std::vector<FolderFacts> folders;
  NetworkFacts network;
  OpenFilesFacts open_files;
  std::vector<InstructionSetReport> instruction_sets;
  std::optional<std::string> onednn_maximum;  // ONEDNN_MAX_CPU_ISA
  sandbox::Grants sandbox;
  std::vector<WorkerFacts> workers;
  std::vector<CollectiveFacts> collectives;            // empty: not tried
  std::optional<Result<GenerationReport>> generation;  // absent: not tried
};

}  // namespace muster::doctor
