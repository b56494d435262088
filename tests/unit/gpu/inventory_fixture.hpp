// A machine that uses every key of the inventory file, with the same facts for all sources.
#pragma once

#include <string>

namespace muster::gpu {

// GPUs 0 and 1 are joined by NVLink, 2 is in MIG mode, 3 tells nothing but its memory.
inline const std::string every_fact = R"(
driver_version: 580.159.03
cuda_version: "13.0"
gpus:
  - index: 0
    uuid: GPU-8932f937-d72c-4106-c12f-20bd9faed9f6
    name: NVIDIA A100-SXM4-80GB
    memory_total: 80GiB
    memory_used: 30GiB
    memory_reserved: 500MiB
    utilization: 93
    memory_utilization: 41
    temperature: 66
    power: 312.5
    power_limit: 400
    clock_sm: 1410
    clock_memory: 1593
    ecc_corrected: 4
    ecc_uncorrected: 0
    row_remap_pending: false
    row_remap_failed: false
    compute_capability: "8.0"
    multiprocessor_count: 108
    pci_bus_id: 00000000:07:00.0
    numa_node: 3
    cpu_affinity: 48-63,176-191
    processes:
      - {pid: 2000000001, memory: 20GiB}
      - {pid: 2000000002, memory: 10GiB}
  - index: 1
    uuid: GPU-0a1b2c3d-0000-1111-2222-333344445555
    name: NVIDIA A100-SXM4-80GB
    memory_total: 80GiB
    memory_reserved: 500MiB
    utilization: 0
    memory_utilization: 0
    temperature: 30
    power: 55.25
    power_limit: 400
    clock_sm: 210
    clock_memory: 1593
    ecc_corrected: 0
    ecc_uncorrected: 2
    row_remap_pending: true
    row_remap_failed: true
    compute_capability: 8.0
    multiprocessor_count: 108
    pci_bus_id: 00000000:0F:00.0
    numa_node: 3
    cpu_affinity: 48-63,176-191
  - index: 2
    name: NVIDIA H100 80GB HBM3
    memory_total: 80GiB
    memory_reserved: 0
    compute_capability: 9.0
    multiprocessor_count: 132
    pci_bus_id: 00000000:47:00.0
    mig:
      - {gpu_instance: 1, compute_instance: 0, memory_total: 10GiB, name: NVIDIA H100 80GB HBM3 MIG 1g.10gb}
      - {uuid: MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee, gpu_instance: 9, compute_instance: 0, memory_total: 20GiB}
  - memory_total: 24GiB
    memory_reserved: 0
links:
  - {between: [0, 1], kind: nvlink, lanes: 12}
  - {between: [0, 2], kind: node}
  - {between: [1, 2], kind: pxb}
  - {between: [2, 3], kind: sys}
)";

}  // namespace muster::gpu
