#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "gpu/health.hpp"
#include "gpu/inventory.hpp"
#include "inventory_fixture.hpp"
#include "testing/contains.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::gpu {
namespace {

using muster::testing::contains;

Snapshot accepted(std::string_view text) {
  const auto snapshot = parse_inventory(text, "gpus.yaml");
  if (!snapshot) throw std::runtime_error(to_string(snapshot.error()));
  return *snapshot;
}

std::string refusal(std::string_view text) {
  const auto snapshot = parse_inventory(text, "gpus.yaml");
  if (snapshot) return "accepted";
  EXPECT_EQ(snapshot.error().kind, Error::Kind::bad_input);
  return to_string(snapshot.error());
}

TEST(InventoryFile, NeedsNothingButTheMemoryOfEachGpu) {
  const Snapshot snapshot = accepted("gpus: [{memory_total: 80GiB}]");
  ASSERT_EQ(snapshot.gpus.size(), 1u);
  const Gpu& gpu = snapshot.gpus[0];
  EXPECT_EQ(snapshot.driver, DriverState::ready);
  EXPECT_EQ(snapshot.source, "gpus.yaml");
  EXPECT_EQ(gpu.facts.index, GpuIndex{0});
  EXPECT_EQ(gpu.facts.memory_total, gibibytes(80));
  EXPECT_EQ(gpu.reading.memory_used, ByteCount{0});
  EXPECT_EQ(gpu.reading.memory_free, gibibytes(80));
  EXPECT_EQ(gpu.reading.memory_reserved, std::nullopt);
  EXPECT_EQ(gpu.reading.utilization, std::nullopt);
  EXPECT_EQ(gpu.facts.name, std::nullopt);
  EXPECT_EQ(sickness(gpu), std::nullopt);
}

TEST(InventoryFile, ReadsEveryKey) {
  const Snapshot snapshot = accepted(every_fact);
  ASSERT_EQ(snapshot.gpus.size(), 4u);
  const Gpu& gpu = snapshot.gpus[0];
  EXPECT_EQ(snapshot.driver_version, "580.159.03");
  EXPECT_EQ(snapshot.cuda_version, "13.0");
  EXPECT_EQ(gpu.facts.uuid, GpuUuid{"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"});
  EXPECT_EQ(gpu.facts.compute_capability, (ComputeCapability{8, 0}));
  EXPECT_EQ(gpu.facts.multiprocessor_count, 108);
  EXPECT_EQ(gpu.facts.numa_node, 3);
  EXPECT_EQ(gpu.facts.cpu_affinity, "48-63,176-191");
  EXPECT_EQ(gpu.facts.pci_bus_id, "00000000:07:00.0");
  EXPECT_EQ(gpu.reading.memory_free, gibibytes(50) - mebibytes(500));
  EXPECT_EQ(gpu.reading.utilization, 93);
  EXPECT_EQ(gpu.reading.power, 312.5);
  EXPECT_EQ(gpu.reading.clock_memory, 1593);
  EXPECT_EQ(gpu.reading.ecc_corrected, 4);
  ASSERT_EQ(gpu.processes.size(), 2u);
  EXPECT_EQ(gpu.processes[0].memory, gibibytes(20));
  EXPECT_EQ(snapshot.gpus[1].reading.row_remap_pending, true);
  ASSERT_EQ(snapshot.gpus[2].facts.mig_instances.size(), 2u);
  EXPECT_TRUE(snapshot.gpus[2].facts.mig_mode);
  EXPECT_EQ(snapshot.gpus[2].facts.mig_instances[1].uuid.text, "MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee");
  EXPECT_EQ(snapshot.gpus[3].facts.index, GpuIndex{3});
  ASSERT_EQ(snapshot.links.size(), 4u);
  EXPECT_EQ(snapshot.links[0], (Link{GpuIndex{0}, GpuIndex{1}, LinkKind::nvlink, 12}));
}

TEST(InventoryFile, MakesAsManyEqualGpusAsCountSays) {
  const Snapshot snapshot =
      accepted("gpus: [{count: 8, memory_total: 80GiB, name: A100}, {count: 2, memory_total: 24GiB}]");
  ASSERT_EQ(snapshot.gpus.size(), 10u);
  EXPECT_EQ(snapshot.gpus[7].facts.name, "A100");
  EXPECT_EQ(snapshot.gpus[9].facts.index, GpuIndex{9});
  EXPECT_EQ(snapshot.gpus[9].facts.memory_total, gibibytes(24));
}

TEST(InventoryFile, AcceptsACountBesideTheOnlyEntry) {
  EXPECT_EQ(accepted("{count: 4, gpus: [{memory_total: 80GiB}]}").gpus.size(), 4u);
  EXPECT_TRUE(contains(refusal("{count: 4, gpus: [{memory_total: 1GiB}, {memory_total: 2GiB}]}"),
                       "gpus.yaml:1:9: count beside 2 entries"));
}

TEST(InventoryFile, GeneratesUuidsThatLookRealAndStayTheSame) {
  const Snapshot first = accepted("gpus: [{count: 16, memory_total: 80GiB}]");
  const Snapshot other = accepted("gpus: [{count: 16, memory_total: 24GiB, name: other}]");
  const std::regex form("GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}");
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_TRUE(std::regex_match(first.gpus[i].facts.uuid->text, form)) << first.gpus[i].facts.uuid->text;
    EXPECT_EQ(first.gpus[i].facts.uuid, other.gpus[i].facts.uuid);
  }
  // Written down: leases of other versions are kept by these names.
  EXPECT_EQ(first.gpus[0].facts.uuid->text, "GPU-e220a839-7b1d-cdaf-910a-2dec89025cc1");
}

TEST(InventoryFile, SortsGpusByIndexAndContinuesAfterTheEntryBefore) {
  const Snapshot snapshot =
      accepted("gpus: [{index: 4, memory_total: 1GiB}, {memory_total: 2GiB}, {index: 0, memory_total: 3GiB}]");
  ASSERT_EQ(snapshot.gpus.size(), 3u);
  EXPECT_EQ(snapshot.gpus[0].facts.memory_total, gibibytes(3));
  EXPECT_EQ(snapshot.gpus[2].facts.index, GpuIndex{5});
}

TEST(InventoryFile, TakesAnEmptyListForAMachineWithoutDevices) {
  const Snapshot snapshot = accepted(R"({"gpus": []})");
  EXPECT_EQ(snapshot.driver, DriverState::no_devices);
  EXPECT_TRUE(contains(snapshot.explanation, "gpus.yaml"));
}

TEST(InventoryFile, CanDescribeAMachineWithoutADriver) {
  EXPECT_EQ(accepted("{gpus: [], driver_state: no_driver}").driver, DriverState::no_driver);
  EXPECT_EQ(accepted("{gpus: [], driver_state: no_devices}").driver, DriverState::no_devices);
  EXPECT_TRUE(contains(refusal("{gpus: [{memory_total: 1GiB}], driver_state: no_driver}"), "leave driver_state out"));
}

TEST(InventoryFile, ReadsInstancesAsTheJsonOutputWritesThem) {
  const Snapshot snapshot = accepted(R"({"gpus": [{"memory": {"total": 8589934592}, "mig": [
    {"uuid": "MIG-1", "gpu_instance": 2, "compute_instance": 1, "memory_total": null, "name": null, "lease": null}]}]})");
  const MigInstance expected{GpuUuid{"MIG-1"}, 2, 1, std::nullopt, std::nullopt};
  EXPECT_EQ(snapshot.gpus[0].facts.mig_instances, std::vector{expected});
}

TEST(InventoryFile, KeepsUsedMemoryAbsentWhenOnlyFreeIsGiven) {
  const Snapshot snapshot = accepted("gpus: [{memory_total: 80GiB, memory_free: 10GiB}]");
  EXPECT_EQ(snapshot.gpus[0].reading.memory_used, std::nullopt);
  EXPECT_EQ(snapshot.gpus[0].reading.memory_free, gibibytes(10));
}

TEST(InventoryFile, BelievesTheFileThatAGpuIsSickOrLost) {
  const Snapshot snapshot = accepted(
      "gpus: [{memory_total: 1GiB, healthy: false}, {memory_total: 1GiB, lost: true}, "
      "{memory_total: 1GiB, xids: [31, 79]}, {memory_total: 1GiB, healthy: true}]");
  EXPECT_EQ(sickness(snapshot.gpus[0]), "declared unhealthy in gpus.yaml");
  EXPECT_TRUE(snapshot.gpus[1].lost);
  EXPECT_EQ(snapshot.gpus[2].reading.recent_xids, (std::vector{31, 79}));
  EXPECT_EQ(sickness(snapshot.gpus[3]), std::nullopt);
}

TEST(InventoryFile, NormalisesPciAddressesAndCpuLists) {
  const Snapshot snapshot =
      accepted(R"(gpus: [{memory_total: 1GiB, pci_bus_id: "0000:3b:00.0", cpu_affinity: "3,0-1,2,9"}])");
  EXPECT_EQ(snapshot.gpus[0].facts.pci_bus_id, "00000000:3B:00.0");
  EXPECT_EQ(snapshot.gpus[0].facts.cpu_affinity, "0-3,9");
}

TEST(InventoryFile, ReadsBackWhatTheJsonOutputWrites) {
  const Snapshot snapshot = accepted(R"({"gpus": [
    {"index": 0, "uuid": "GPU-11111111-2222-3333-4444-555555555555", "name": "A100", "visible_index": null,
     "memory": {"total": 85899345920, "used": 1073741824, "free": 84825604096, "reserved": null}, "utilization": null,
     "power": null, "mig": null, "memory_utilization": 3, "processes": [{"pid": 7, "user": "ada", "command": "python x.py", "memory": null}],
     "healthy": false, "unhealthy_because": "Xid 79 in the kernel log: the GPU fell off the bus", "xids": [79],
     "lease": {"pid": 7, "user": "ada", "command": "muster train", "since": 1700000000}},
    {"index": 1, "uuid": null, "lost": true, "memory": {"total": null, "used": null, "free": null}, "healthy": false,
     "unhealthy_because": "lost: the driver cannot reach it"}],
    "links": [{"between": [1, 0], "kind": "nvlink", "lanes": 12}], "mask": {"variable": null},
    "driver_state": "ready", "source": "NVML", "driver_version": "580.159.03", "cuda_version": null})");
  ASSERT_EQ(snapshot.gpus.size(), 2u);
  const Gpu& gpu = snapshot.gpus[0];
  EXPECT_EQ(gpu.facts.memory_total, gibibytes(80));
  EXPECT_EQ(gpu.reading.memory_used, gibibytes(1));
  EXPECT_EQ(gpu.reading.memory_free, gibibytes(79));
  EXPECT_FALSE(gpu.facts.mig_mode);
  EXPECT_EQ(gpu.processes[0].user, "ada");
  EXPECT_EQ(sickness(gpu), "Xid 79 in the kernel log: the GPU fell off the bus");
  EXPECT_EQ(snapshot.gpus[1].facts.uuid, std::nullopt);
  EXPECT_EQ(snapshot.gpus[1].facts.memory_total, std::nullopt);
  EXPECT_EQ(snapshot.gpus[1].reading.memory_used, std::nullopt);
  EXPECT_EQ(sickness(snapshot.gpus[1]), "lost: the driver cannot reach it");
  EXPECT_EQ(snapshot.links[0].a, GpuIndex{0});
}

TEST(InventoryFile, RefusesAnUnknownKeyWithItsPlaceAndTheNearestKnownOne) {
  EXPECT_TRUE(contains(refusal("gpus:\n  - memory_total: 1GiB\n    utilisation: 3\n"),
                       "gpus.yaml:3:5: unknown key \"utilisation\"; did you mean \"utilization\"?"));
  EXPECT_TRUE(contains(refusal("gpu: []"), "did you mean \"gpus\"?"));
}

TEST(InventoryFile, ReportsAllProblemsAtOnce) {
  const std::string text = refusal(
      "gpus:\n"
      "  - {memory_total: 1GiB, utilization: 101}\n"
      "  - {memory_total: lots}\n"
      "  - {name: x}\n"
      "  - {memory_total: 1GiB, memory_used: 2GiB}\n"
      "links: [{between: [0, 9], kind: nvlink}, {between: [0, 1], kind: rope}]\n");
  EXPECT_TRUE(contains(text, "gpus.yaml:2:39: utilization is \"101\"; it must be a whole number from 0 to 100"));
  EXPECT_TRUE(contains(text, "gpus.yaml:3:20: memory_total: \"lots\" is not a size"));
  EXPECT_TRUE(contains(text, "gpus.yaml:4:5: a GPU without memory_total"));
  EXPECT_TRUE(contains(text, "gpus.yaml:5:5: memory_used: 2.0 GiB"));
  EXPECT_TRUE(contains(text, "gpus.yaml:6:9: a link to GPU 9"));
  EXPECT_TRUE(contains(text, "kind is \"rope\"; it must be nvlink, pix, pxb, phb, node or sys"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 5);
}

TEST(InventoryFile, RefusesWhatCannotBeAMachine) {
  EXPECT_TRUE(contains(refusal("gpus: [{index: 1, memory_total: 1GiB}, {index: 1, memory_total: 1GiB}]"),
                       "index 1 a second time"));
  EXPECT_TRUE(contains(refusal("gpus: [{uuid: GPU-a, memory_total: 1GiB}, {uuid: GPU-A, memory_total: 1GiB}]"),
                       "uuid GPU-A a second time"));
  EXPECT_TRUE(contains(refusal("gpus: [{uuid: GPU-a/../b, memory_total: 1GiB}]"), "uuid is \"GPU-a/../b\""));
  EXPECT_TRUE(contains(refusal("gpus: [{count: 2, index: 0, memory_total: 1GiB}]"), "count: 2 with an index"));
  EXPECT_TRUE(contains(refusal("gpus: [{memory_total: 1GiB, memory_used: 600MiB, memory_free: 600MiB}]"),
                       "together they must not be more"));
  EXPECT_TRUE(
      contains(refusal("gpus: [{memory_total: 8000000000000000000, memory_used: 8000000000000000000, memory_free: "
                       "8000000000000000000}]"),
               "together they must not be more"));
  EXPECT_TRUE(contains(refusal("gpus: [{memory_total: -1}]"), "memory_total"));
  EXPECT_TRUE(contains(refusal("gpus: [{memory_total: 1GiB, temperature: -3}]"), "temperature is \"-3\""));
  EXPECT_TRUE(contains(refusal("gpus: [{memory_total: 1GiB, power: .nan}]"), "power is \".nan\""));
  EXPECT_TRUE(contains(refusal("gpus: [{memory_total: 1GiB, memory: {total: 1GiB}}]"), "memory_total beside memory"));
  EXPECT_TRUE(contains(refusal("gpus: [{memory_total: 1GiB, compute_capability: 8}]"), "as in 8.0"));
  EXPECT_TRUE(contains(refusal("{gpus: [{memory_total: 1GiB}], links: [{between: [0, 0], kind: pix}]}"), "to itself"));
  EXPECT_TRUE(
      contains(refusal("{gpus: [{count: 2, memory_total: 1GiB}], links: [{between: [0, 1], kind: pix, lanes: 2}]}"),
               "only nvlink has lanes"));
  EXPECT_TRUE(
      contains(refusal("{gpus: [{count: 2, memory_total: 1GiB}], links: [{between: [0, 1], kind: pix}, {between: [1, "
                       "0], kind: pix}]}"),
               "a second time"));
}

TEST(InventoryFile, RefusesTextsThatAreNoInventory) {
  EXPECT_TRUE(contains(refusal(""), "the file is nothing; it must be a table"));
  EXPECT_TRUE(contains(refusal("[1, 2]"), "the file is a list"));
  EXPECT_TRUE(contains(refusal("{}"), "no list \"gpus\""));
  EXPECT_TRUE(contains(refusal("gpus: 8"), "gpus is \"8\"; it must be a list"));
  EXPECT_TRUE(contains(refusal("gpus: [7]"), "gpus is \"7\"; it must be a table"));
  EXPECT_TRUE(contains(refusal("gpus: [{memory_total: 1GiB"), "not valid YAML or JSON"));
}

TEST(InventoryFile, IsReadAnewEachTime) {
  const testing::ScratchFolder scratch;
  const auto file = scratch.write("gpus.yaml", "gpus: [{memory_total: 1GiB}]");
  const auto inventory = open_file_inventory(file);
  EXPECT_EQ(inventory->read(Detail::everything)->gpus.size(), 1u);
  scratch.write("gpus.yaml", "gpus: [{memory_total: 1GiB, count: 3}]");
  EXPECT_EQ(inventory->read(Detail::memory)->gpus.size(), 3u);
}

TEST(InventoryFile, NamesTheFileThatIsMissing) {
  const auto snapshot = open_file_inventory("/nowhere/gpus.yaml")->read(Detail::everything);
  ASSERT_FALSE(snapshot);
  EXPECT_TRUE(contains(snapshot.error().what, "/nowhere/gpus.yaml"));
}

}  // namespace
}  // namespace muster::gpu
