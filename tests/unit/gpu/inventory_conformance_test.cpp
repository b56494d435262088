// What holds for every source of snapshots: a file, NVML of a new and of an old driver, and the driver of this machine.
#include <gtest/gtest.h>

#include <functional>
#include <regex>
#include <set>

#include "gpu/inventory.hpp"
#include "inventory_fixture.hpp"
#include "testing/environment_variable.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::gpu {
namespace {

struct Source {
  std::string name;
  std::function<std::unique_ptr<Inventory>(const std::filesystem::path& file, MachinePaths paths)> open;
};

void PrintTo(const Source& source, std::ostream* out) { *out << source.name; }

std::vector<Source> sources() {
  std::vector<Source> all{
      {"File", [](const auto& file, MachinePaths) { return open_file_inventory(file); }},
      {"NvmlOfANewDriver",
       [](const auto&, MachinePaths paths) { return open_nvml_inventory(MUSTER_NVML_STUB, std::move(paths)); }},
      {"NvmlOfAnOldDriver",
       [](const auto&, MachinePaths paths) { return open_nvml_inventory(MUSTER_NVML_STUB_OLD, std::move(paths)); }},
  };
  // The machine's own driver, where it lists GPUs.
  const auto snapshot = open_nvml_inventory()->read(Detail::memory);
  if (snapshot && snapshot->driver == DriverState::ready)
    all.push_back({"NvmlOfThisMachine", [](const auto&, MachinePaths) { return open_nvml_inventory(); }});
  return all;
}

class InventoryConformance : public ::testing::TestWithParam<Source> {
 protected:
  Snapshot read(Detail detail = Detail::everything) {
    const auto snapshot = inventory_->read(detail);
    if (!snapshot) throw std::runtime_error(to_string(snapshot.error()));
    return *snapshot;
  }

  testing::ScratchFolder scratch_;
  std::filesystem::path file_ = scratch_.write("gpus.yaml", every_fact);
  testing::EnvironmentVariable inventory_variable_{"MUSTER_NVML_STUB_INVENTORY", file_.string()};
  testing::EnvironmentVariable fail_variable_{"MUSTER_NVML_STUB_FAIL", std::nullopt};
  MachinePaths paths_{"/proc", scratch_.path() / "sys", scratch_.path() / "kmsg"};
  std::unique_ptr<Inventory> inventory_ = GetParam().open(file_, paths_);
};

TEST_P(InventoryConformance, ListsGpusByAscendingIndexEachOnce) {
  const Snapshot snapshot = read();
  ASSERT_EQ(snapshot.driver, DriverState::ready);
  ASSERT_FALSE(snapshot.gpus.empty());
  for (std::size_t i = 1; i < snapshot.gpus.size(); ++i)
    EXPECT_LT(snapshot.gpus[i - 1].facts.index, snapshot.gpus[i].facts.index);
}

TEST_P(InventoryConformance, GivesEveryGpuAUuidOfItsOwn) {
  const std::regex form("(GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}");
  std::set<GpuUuid> seen;
  for (const Gpu& gpu : read().gpus) {
    ASSERT_TRUE(gpu.facts.uuid.has_value());
    EXPECT_TRUE(std::regex_match(gpu.facts.uuid->text, form)) << gpu.facts.uuid->text;
    EXPECT_TRUE(seen.insert(*gpu.facts.uuid).second) << gpu.facts.uuid->text;
    for (const MigInstance& instance : gpu.facts.mig_instances) {
      EXPECT_TRUE(std::regex_match(instance.uuid.text, form)) << instance.uuid.text;
      EXPECT_TRUE(seen.insert(instance.uuid).second) << instance.uuid.text;
    }
  }
}

TEST_P(InventoryConformance, NeverReportsMoreMemoryInPartsThanInTotal) {
  for (const Gpu& gpu : read().gpus) {
    ASSERT_TRUE(gpu.facts.memory_total && gpu.reading.memory_used && gpu.reading.memory_free);
    const ByteCount reserved = gpu.reading.memory_reserved.value_or(ByteCount{});
    EXPECT_LE(*gpu.reading.memory_used + *gpu.reading.memory_free + reserved, *gpu.facts.memory_total);
    EXPECT_GT(gpu.facts.memory_total->value, 0);
    EXPECT_GE(gpu.reading.memory_used->value, 0);
    EXPECT_GE(gpu.reading.memory_free->value, 0);
  }
}

TEST_P(InventoryConformance, ReportsTheSameFactsWhenReadTwice) {
  const Snapshot first = read();
  const Snapshot second = read();
  ASSERT_EQ(first.gpus.size(), second.gpus.size());
  for (std::size_t i = 0; i < first.gpus.size(); ++i) EXPECT_EQ(first.gpus[i].facts, second.gpus[i].facts);
  EXPECT_EQ(first.links, second.links);
  EXPECT_EQ(first.driver_version, second.driver_version);
}

TEST_P(InventoryConformance, AgreesOnIdentityAndTotalsWhenAskedForMemoryAlone) {
  const Snapshot all = read(Detail::everything);
  const Snapshot memory = read(Detail::memory);
  ASSERT_EQ(all.gpus.size(), memory.gpus.size());
  for (std::size_t i = 0; i < all.gpus.size(); ++i) {
    EXPECT_EQ(all.gpus[i].facts.index, memory.gpus[i].facts.index);
    EXPECT_EQ(all.gpus[i].facts.uuid, memory.gpus[i].facts.uuid);
    EXPECT_EQ(all.gpus[i].facts.memory_total, memory.gpus[i].facts.memory_total);
    EXPECT_EQ(all.gpus[i].lost, memory.gpus[i].lost);
    EXPECT_TRUE(memory.gpus[i].reading.memory_free.has_value());
  }
}

TEST_P(InventoryConformance, LinksOnlyGpusThatItListsAndEachPairOnce) {
  const Snapshot snapshot = read();
  std::set<GpuIndex> known;
  for (const Gpu& gpu : snapshot.gpus) known.insert(gpu.facts.index);
  EXPECT_EQ(known.size(), snapshot.gpus.size());
  std::set<std::pair<GpuIndex, GpuIndex>> seen;
  for (const Link& link : snapshot.links) {
    EXPECT_TRUE(known.contains(link.a) && known.contains(link.b));
    EXPECT_LT(link.a, link.b);
    EXPECT_TRUE(seen.insert({link.a, link.b}).second);
    EXPECT_TRUE(link.kind == LinkKind::nvlink || link.lanes == 0);
  }
}

TEST_P(InventoryConformance, KeepsPercentagesAndProcessesWithinReason) {
  for (const Gpu& gpu : read().gpus) {
    EXPECT_LE(gpu.reading.utilization.value_or(0), 100);
    EXPECT_LE(gpu.reading.memory_utilization.value_or(0), 100);
    EXPECT_GE(gpu.reading.utilization.value_or(0), 0);
    std::set<pid_t> pids;
    for (const GpuProcess& process : gpu.processes) {
      EXPECT_TRUE(pids.insert(process.pid).second) << process.pid;
      EXPECT_LE(process.memory.value_or(ByteCount{}), *gpu.facts.memory_total);
    }
    EXPECT_EQ(gpu.facts.mig_mode || gpu.facts.mig_instances.empty(), true);
  }
}

INSTANTIATE_TEST_SUITE_P(Sources, InventoryConformance, ::testing::ValuesIn(sources()),
                         [](const auto& source) { return source.param.name; });

// The sources that describe the machine of every_fact.
class SameMachine : public InventoryConformance {};

TEST_P(SameMachine, LeavesAFactAbsentThatTheMachineDoesNotTell) {
  const Gpu silent = read().gpus.at(3);
  EXPECT_EQ(silent.facts.name, std::nullopt);
  EXPECT_EQ(silent.facts.compute_capability, std::nullopt);
  EXPECT_EQ(silent.facts.multiprocessor_count, std::nullopt);
  EXPECT_EQ(silent.facts.pci_bus_id, std::nullopt);
  EXPECT_EQ(silent.facts.numa_node, std::nullopt);
  EXPECT_EQ(silent.facts.cpu_affinity, std::nullopt);
  EXPECT_FALSE(silent.facts.mig_mode);
  GpuReading memory_alone;
  memory_alone.memory_used = silent.reading.memory_used;
  memory_alone.memory_reserved = silent.reading.memory_reserved;
  memory_alone.memory_free = silent.reading.memory_free;
  EXPECT_EQ(silent.reading, memory_alone);
  EXPECT_TRUE(silent.processes.empty());
  EXPECT_FALSE(silent.lost);
}

TEST_P(SameMachine, TellsTheFactsThatDriversHaveAlwaysTold) {
  const Snapshot here = read();
  const Snapshot file = *open_file_inventory(file_)->read(Detail::everything);
  ASSERT_EQ(here.gpus.size(), file.gpus.size());
  EXPECT_EQ(here.driver_version, file.driver_version);
  for (std::size_t i = 0; i < file.gpus.size(); ++i) {
    const Gpu& gpu = here.gpus[i];
    const Gpu& expected = file.gpus[i];
    EXPECT_EQ(gpu.facts.uuid, expected.facts.uuid);
    EXPECT_EQ(gpu.facts.name, expected.facts.name);
    EXPECT_EQ(gpu.facts.pci_bus_id, expected.facts.pci_bus_id);
    EXPECT_EQ(gpu.facts.compute_capability, expected.facts.compute_capability);
    EXPECT_EQ(gpu.facts.memory_total, expected.facts.memory_total);
    EXPECT_EQ(gpu.facts.cpu_affinity, expected.facts.cpu_affinity);
    EXPECT_EQ(gpu.reading.memory_free, expected.reading.memory_free);
    EXPECT_EQ(gpu.reading.utilization, expected.reading.utilization);
    EXPECT_EQ(gpu.reading.power, expected.reading.power);
    EXPECT_EQ(gpu.reading.ecc_uncorrected, expected.reading.ecc_uncorrected);
    EXPECT_EQ(gpu.processes, expected.processes);
  }
}

INSTANTIATE_TEST_SUITE_P(Sources, SameMachine, ::testing::ValuesIn([] {
                           auto all = sources();
                           all.resize(3);
                           return all;
                         }()),
                         [](const auto& source) { return source.param.name; });

TEST(InventoryAgreement, NvmlOfANewDriverReportsExactlyWhatTheFileSays) {
  const testing::ScratchFolder scratch;
  const auto file = scratch.write("gpus.yaml", every_fact);
  const testing::EnvironmentVariable variable("MUSTER_NVML_STUB_INVENTORY", file.string());
  const testing::EnvironmentVariable fail("MUSTER_NVML_STUB_FAIL", std::nullopt);
  const MachinePaths paths{"/proc", scratch.path() / "sys", scratch.path() / "kmsg"};
  auto expected = open_file_inventory(file)->read(Detail::everything);
  const auto snapshot = open_nvml_inventory(MUSTER_NVML_STUB, paths)->read(Detail::everything);
  ASSERT_TRUE(expected && snapshot);
  expected->source = "NVML";
  for (std::size_t i = 0; i < expected->gpus.size(); ++i)
    EXPECT_EQ(snapshot->gpus.at(i), expected->gpus[i]) << "GPU " << i;
  EXPECT_EQ(*snapshot, *expected);
}

}  // namespace
}  // namespace muster::gpu
