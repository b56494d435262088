// A healthy machine as facts, and the judgement of one check.
#pragma once

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/doctor.hpp"

namespace muster::doctor {

inline const Check& find(const std::vector<Check>& checks, std::string_view name) {
  const auto found = std::ranges::find(checks, name, &Check::name);
  if (found == checks.end()) throw std::logic_error("no such check: " + std::string(name));
  return *found;
}

inline Check judge(const HostFacts& facts, std::string_view name) { return find(examine(facts), name); }

inline bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

inline gpu::Gpu gpu_number(int index, std::string name) {
  gpu::Gpu gpu;
  gpu.facts.index = gpu::GpuIndex{index};
  gpu.facts.uuid = gpu::GpuUuid{"GPU-0000000" + std::to_string(index)};
  gpu.facts.name = std::move(name);
  return gpu;
}

// A machine with two GPUs on which everything is as it should be.
inline HostFacts healthy() {
  HostFacts facts;
  gpu::Snapshot snapshot;
  snapshot.source = "NVML";
  snapshot.driver_version = "580.1";
  snapshot.cuda_version = "13.0";
  snapshot.gpus = {gpu_number(0, "H200"), gpu_number(1, "H200")};
  facts.snapshot = snapshot;
  facts.driver = {"580.1", {"/dev/nvidia0", "/dev/nvidia1"}, {"0000:3b:00.0", "0000:5e:00.0"}};
  facts.device_order = "PCI_BUS_ID";
  facts.lease_folder = "/run/lock/muster";
  facts.clock = {std::chrono::seconds(1800000000), std::chrono::seconds(1790000000), std::chrono::milliseconds(0),
                 true};
  facts.memory = {gibibytes(64), std::nullopt, gibibytes(8)};
  facts.folders = {{"working folder", "/work", gibibytes(100), std::nullopt},
                   {"temporary folder", "/tmp", gibibytes(50), std::nullopt}};
  facts.network.host_name = "node7";
  facts.network.host_addresses = facts.network.local_addresses = {"10.0.0.7"};
  facts.open_files = {65536, 65536};
  for (const char* name : {"avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16"})
    facts.instruction_sets.push_back({name, InstructionSetOutcome::works, std::nullopt});
  for (const int index : {0, 1}) {
    const std::string uuid = "GPU-0000000" + std::to_string(index);
    const WorkerReport report{4711 + index, std::to_string(index), "PCI_BUS_ID", std::vector{uuid}, std::nullopt};
    facts.workers.push_back({index, std::to_string(index), {uuid}, report});
  }
  facts.collectives = {{"2 CPU ranks", wire::CollectiveReport{"gloo", "cpu", 2, 7, 0.5}, false}};
  return facts;
}

}  // namespace muster::doctor
