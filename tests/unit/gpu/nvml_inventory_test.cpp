#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "gpu/inventory.hpp"
#include "inventory_fixture.hpp"
#include "testing/contains.hpp"
#include "testing/environment_variable.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::gpu {
namespace {

using muster::testing::contains;

class NvmlInventory : public ::testing::Test {
 protected:
  Result<Snapshot> read(const std::string& failures, Detail detail = Detail::everything,
                        const std::filesystem::path& library = MUSTER_NVML_STUB) {
    const testing::EnvironmentVariable fail("MUSTER_NVML_STUB_FAIL", failures);
    return open_nvml_inventory(library, paths_)->read(detail);
  }
  Snapshot snapshot(const std::string& failures, Detail detail = Detail::everything,
                    const std::filesystem::path& library = MUSTER_NVML_STUB) {
    const auto result = read(failures, detail, library);
    if (!result) throw std::runtime_error(to_string(result.error()));
    return *result;
  }
  Error error(const std::string& failures) {
    const auto result = read(failures);
    if (result) throw std::runtime_error("no error");
    return result.error();
  }
  void serve(std::string_view text) { scratch_.write("gpus.yaml", text); }

  testing::ScratchFolder scratch_;
  std::filesystem::path file_ = scratch_.write("gpus.yaml", every_fact);
  testing::EnvironmentVariable inventory_{"MUSTER_NVML_STUB_INVENTORY", file_.string()};
  MachinePaths paths_{scratch_.path() / "proc", scratch_.path() / "sys", scratch_.path() / "kmsg"};
};

TEST_F(NvmlInventory, CallsAMissingLibraryNoDriverAndSaysWhatWasLookedFor) {
  const Snapshot none = snapshot("", Detail::everything, "/nowhere/libnvidia-ml.so.1");
  EXPECT_EQ(none.driver, DriverState::no_driver);
  EXPECT_TRUE(contains(none.explanation, "/nowhere/libnvidia-ml.so.1"));
  EXPECT_TRUE(none.gpus.empty());
}

TEST_F(NvmlInventory, CallsAKernelModuleThatIsNotLoadedNoDriver) {
  const Snapshot none = snapshot("init=9");
  EXPECT_EQ(none.driver, DriverState::no_driver);
  EXPECT_TRUE(contains(none.explanation, "Driver Not Loaded (9)", "modprobe nvidia"));
}

TEST_F(NvmlInventory, TellsNoDevicesFromNoDriver) {
  serve("gpus: []");
  EXPECT_EQ(snapshot("").driver, DriverState::no_devices);
}

TEST_F(NvmlInventory, NamesTheContainerFixForAnUnknownErrorWhereverItComes) {
  for (const std::string failure : {"init=999", "count=999"}) {
    const Error refused = error(failure);
    EXPECT_EQ(refused.kind, Error::Kind::failed);
    EXPECT_TRUE(contains(refused.what, "Unknown Error (999)"));
    EXPECT_TRUE(contains(refused.remedy, "restart the container", "--device"));
  }
  EXPECT_TRUE(contains(error("handle=0:999,handle=1:999,handle=2:999,handle=3:999").remedy, "restart the container"));
}

TEST_F(NvmlInventory, NamesBothSidesWhenDriverAndLibraryVersionsDiffer) {
  std::filesystem::create_directories(scratch_.path() / "proc/driver/nvidia");
  scratch_.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug\n");
  const Error refused = error("init=18");
  EXPECT_TRUE(contains(refused.what, "driver and library versions differ", "535.104.05"));
  EXPECT_TRUE(contains(refused.remedy, "reboot"));
}

TEST_F(NvmlInventory, PointsAtTheDeviceFilesWhenPermissionIsDenied) {
  EXPECT_TRUE(contains(error("init=4").remedy, "ls -l /dev/nvidia*"));
  EXPECT_TRUE(contains(error("handle=0:4,handle=1:4,handle=2:4,handle=3:4").remedy, "ls -l /dev/nvidia*"));
}

TEST_F(NvmlInventory, LeavesOutTheGpusOfOthersAndKeepsTheIndexes) {
  const Snapshot seen = snapshot("handle=1:4");
  ASSERT_EQ(seen.gpus.size(), 3u);
  EXPECT_EQ(seen.gpus[1].facts.index, GpuIndex{2});
}

TEST_F(NvmlInventory, ListsAGpuThatIsLostWhileItIsReadBesideTheOthers) {
  const Snapshot seen = snapshot("lost=1");
  ASSERT_EQ(seen.gpus.size(), 4u);
  EXPECT_TRUE(seen.gpus[1].lost);
  EXPECT_EQ(seen.gpus[1].facts.uuid, GpuUuid{"GPU-0a1b2c3d-0000-1111-2222-333344445555"});
  EXPECT_EQ(seen.gpus[1].facts.name, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(seen.gpus[1].reading.memory_free, std::nullopt);
  EXPECT_EQ(seen.gpus[1].reading.temperature, std::nullopt);
  EXPECT_FALSE(seen.gpus[0].lost);
  EXPECT_EQ(seen.gpus[0].reading.temperature, 66);
  EXPECT_EQ(find_link(seen.links, GpuIndex{0}, GpuIndex{1}), std::nullopt);
  EXPECT_TRUE(find_link(seen.links, GpuIndex{0}, GpuIndex{2}).has_value());
}

TEST_F(NvmlInventory, ListsAGpuThatCannotBeReachedAtAllAsLost) {
  for (const std::string failure : {"lost_handle=2", "handle=2:999", "handle=2:16"}) {
    const Snapshot seen = snapshot(failure, Detail::memory);
    ASSERT_EQ(seen.gpus.size(), 4u);
    EXPECT_TRUE(seen.gpus[2].lost);
    EXPECT_EQ(seen.gpus[2].facts.index, GpuIndex{2});
    EXPECT_EQ(seen.gpus[2].facts.uuid, std::nullopt);
    EXPECT_FALSE(seen.gpus[3].lost);
  }
}

TEST_F(NvmlInventory, LeavesAbsentWhatTheDriverDoesNotSupportOrDenies) {
  for (const std::string how : {"unsupported=", "denied="}) {
    std::string failures;
    for (const char* fact :
         {"power", "temperature", "utilization", "clock_sm", "ecc_corrected", "row_remap_pending",
          "multiprocessor_count", "processes", "memory", "mig", "numa_node", "cpu_affinity", "links"})
      failures += how + fact + ",";
    const Snapshot seen = snapshot(failures);
    const Gpu& gpu = seen.gpus[0];
    EXPECT_FALSE(gpu.lost);
    EXPECT_EQ(gpu.reading.power, std::nullopt);
    EXPECT_EQ(gpu.reading.temperature, std::nullopt);
    EXPECT_EQ(gpu.reading.utilization, std::nullopt);
    EXPECT_EQ(gpu.reading.clock_sm, std::nullopt);
    EXPECT_EQ(gpu.reading.ecc_corrected, std::nullopt);
    EXPECT_EQ(gpu.reading.row_remap_failed, std::nullopt);
    EXPECT_EQ(gpu.reading.memory_used, std::nullopt);
    EXPECT_EQ(gpu.facts.memory_total, std::nullopt);
    EXPECT_EQ(gpu.facts.multiprocessor_count, std::nullopt);
    EXPECT_EQ(gpu.facts.numa_node, std::nullopt);
    EXPECT_EQ(gpu.facts.cpu_affinity, std::nullopt);
    EXPECT_TRUE(gpu.processes.empty());
    EXPECT_TRUE(seen.links.empty());
    EXPECT_FALSE(seen.gpus[2].facts.mig_mode);
    EXPECT_EQ(gpu.reading.power_limit, 400);
  }
}

TEST_F(NvmlInventory, TellsReservedMemoryFromUsedWhereTheDriverDoes) {
  const GpuReading reading = snapshot("").gpus[0].reading;
  EXPECT_EQ(reading.memory_used, gibibytes(30));
  EXPECT_EQ(reading.memory_reserved, mebibytes(500));
}

TEST_F(NvmlInventory, CountsReservedMemoryAsUsedWhereTheDriverCannotTell) {
  const Snapshot refused_version = snapshot("refused_version");
  const Snapshot old_driver = snapshot("", Detail::everything, MUSTER_NVML_STUB_OLD);
  for (const Snapshot* seen : {&refused_version, &old_driver}) {
    const GpuReading& reading = seen->gpus[0].reading;
    EXPECT_EQ(reading.memory_used, gibibytes(30) + mebibytes(500));
    EXPECT_EQ(reading.memory_reserved, std::nullopt);
    EXPECT_EQ(reading.memory_free, gibibytes(50) - mebibytes(500));
  }
}

TEST_F(NvmlInventory, LeavesAbsentWhatAnOldDriverHasNoCallFor) {
  const Snapshot seen = snapshot("", Detail::everything, MUSTER_NVML_STUB_OLD);
  EXPECT_EQ(seen.cuda_version, std::nullopt);
  EXPECT_EQ(seen.gpus[0].facts.multiprocessor_count, std::nullopt);
  EXPECT_EQ(seen.gpus[0].reading.row_remap_pending, std::nullopt);
  EXPECT_EQ(seen.gpus[0].facts.numa_node, std::nullopt);
  EXPECT_FALSE(seen.gpus[2].facts.mig_mode);
  EXPECT_EQ(find_link(seen.links, GpuIndex{0}, GpuIndex{1})->kind, LinkKind::sys);
  EXPECT_EQ(seen.gpus[0].processes.size(), 2u);
}

TEST_F(NvmlInventory, AsksForIdentityAndMemoryAloneWhenMemoryIsAllThatIsWanted) {
  const Snapshot seen = snapshot("", Detail::memory);
  EXPECT_NE(seen.gpus[0].facts.name, std::nullopt) << "who it is comes with it";
  EXPECT_EQ(seen.gpus[0].facts.multiprocessor_count, std::nullopt);
  EXPECT_EQ(seen.gpus[0].reading.power, std::nullopt);
  EXPECT_TRUE(seen.links.empty());
  EXPECT_EQ(seen.gpus[0].processes.size(), 2u);
  EXPECT_EQ(seen.gpus[0].reading.memory_used, gibibytes(30));
}

TEST_F(NvmlInventory, CountsTheLinksToTheSwitchWhereEveryPairIsJoinedThroughIt) {
  std::string text = "gpus: [{count: 8, memory_total: 80GiB}]\nlinks:\n";
  for (int a = 0; a < 8; ++a)
    for (int b = a + 1; b < 8; ++b)
      text += "- {between: [" + std::to_string(a) + ", " + std::to_string(b) + "], kind: nvlink, lanes: 18}\n";
  serve(text);
  const Snapshot seen = snapshot("");
  ASSERT_EQ(seen.links.size(), 28u);
  for (const Link& link : seen.links) EXPECT_EQ(to_string(link), "NV18");
}

TEST_F(NvmlInventory, CountsDirectLinksByPeer) {
  serve(R"(
gpus:
- {memory_total: 32GiB, pci_bus_id: "06:00.0"}
- {memory_total: 32GiB, pci_bus_id: "07:00.0"}
- {memory_total: 32GiB, pci_bus_id: "0a:00.0"}
links:
- {between: [0, 1], kind: nvlink, lanes: 1}
- {between: [0, 2], kind: nvlink, lanes: 2}
- {between: [1, 2], kind: phb}
)");
  const Snapshot seen = snapshot("");
  EXPECT_EQ(to_string(find_link(seen.links, GpuIndex{0}, GpuIndex{1}).value()), "NV1");
  EXPECT_EQ(to_string(find_link(seen.links, GpuIndex{0}, GpuIndex{2}).value()), "NV2");
  EXPECT_EQ(to_string(find_link(seen.links, GpuIndex{2}, GpuIndex{1}).value()), "PHB");
}

TEST_F(NvmlInventory, BelievesTheKernelAboutTheMemoryNode) {
  const auto folder = scratch_.path() / "sys/bus/pci/devices/0000:0f:00.0";
  std::filesystem::create_directories(folder);
  scratch_.write("sys/bus/pci/devices/0000:0f:00.0/numa_node", "1\n");
  EXPECT_EQ(snapshot("").gpus[1].facts.numa_node, 1);
  scratch_.write("sys/bus/pci/devices/0000:0f:00.0/numa_node", "-1\n");
  EXPECT_EQ(snapshot("").gpus[1].facts.numa_node, std::nullopt);
}

TEST_F(NvmlInventory, FindsTheXidsOfEachGpuInTheKernelLog) {
  scratch_.write("kmsg",
                 "6,1,100,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module\n"
                 "4,2,200,-;NVRM: Xid (PCI:0000:0f:00): 79, pid='<unknown>', GPU has fallen off the bus.\n"
                 "4,3,300,-;NVRM: Xid (PCI:0000:07:00): 31, pid=12, name=python\n");
  const Snapshot seen = snapshot("");
  EXPECT_EQ(seen.gpus[0].reading.recent_xids, std::vector{31});
  EXPECT_EQ(seen.gpus[1].reading.recent_xids, std::vector{79});
  EXPECT_TRUE(snapshot("", Detail::memory).gpus[1].reading.recent_xids.empty());
}

TEST_F(NvmlInventory, ListsEveryProcessHoweverManyThereAre) {
  std::string text = "gpus:\n- memory_total: 80GiB\n  processes:\n";
  for (int i = 0; i < 500; ++i) text += "  - {pid: " + std::to_string(2000000000 + i) + ", memory: 1MiB}\n";
  serve(text);
  EXPECT_EQ(snapshot("").gpus[0].processes.size(), 500u);
  EXPECT_EQ(snapshot("", Detail::memory, MUSTER_NVML_STUB_OLD).gpus[0].processes.size(), 500u);
}

TEST_F(NvmlInventory, TellsProcessesThatOnlyDrawFromThoseThatCompute) {
  serve("gpus: [{memory_total: 80GiB, processes: [{pid: 2000000000, graphics: true}, {pid: 2000000001}]}]");
  for (const char* library : {MUSTER_NVML_STUB, MUSTER_NVML_STUB_OLD}) {
    const auto processes = snapshot("", Detail::memory, library).gpus[0].processes;
    ASSERT_EQ(processes.size(), 2U);
    EXPECT_TRUE(processes[0].graphics);
    EXPECT_FALSE(processes[1].graphics) << "it is listed among those that draw, too";
  }
}

TEST_F(NvmlInventory, LeavesTheMemoryOfAProcessAbsentWhenTheDriverDoesNotTellIt) {
  serve("gpus: [{memory_total: 80GiB, processes: [{pid: 2000000000}]}]");
  EXPECT_EQ(snapshot("").gpus[0].processes.at(0).memory, std::nullopt);
}

TEST_F(NvmlInventory, NamesTheOwnersOfProcesses) {
  std::filesystem::create_directories(scratch_.path() / "proc/4711");
  std::filesystem::create_directories(scratch_.path() / "proc/self/ns");
  std::filesystem::create_symlink("pid:[4026531836]", scratch_.path() / "proc/self/ns/pid");
  scratch_.write("proc/4711/cmdline", std::string("python\0train.py\0", 16));
  serve("gpus: [{memory_total: 80GiB, processes: [{pid: 4711, memory: 1GiB}]}]");
  const GpuProcess process = snapshot("").gpus[0].processes.at(0);
  EXPECT_EQ(process.command, "python train.py");
  EXPECT_TRUE(process.user.has_value());
  EXPECT_EQ(process.memory, gibibytes(1));
}

TEST_F(NvmlInventory, KeepsOneSessionForItsLifetime) {
  const testing::EnvironmentVariable fail("MUSTER_NVML_STUB_FAIL", std::nullopt);
  const auto inventory = open_nvml_inventory(MUSTER_NVML_STUB, paths_);
  EXPECT_EQ(inventory->read(Detail::memory)->gpus.size(), 4u);
  serve("gpus: []");  // the stub reads the file when a session begins
  EXPECT_EQ(inventory->read(Detail::memory)->gpus.size(), 4u);
  EXPECT_EQ(open_nvml_inventory(MUSTER_NVML_STUB_OLD, paths_)->read(Detail::memory)->gpus.size(), 0u);
}

TEST_F(NvmlInventory, FindsADriverThatIsLoadedLater) {
  const auto library = scratch_.path() / "libnvidia-ml.so.1";
  const auto inventory = open_nvml_inventory(library, paths_);
  EXPECT_EQ(inventory->read(Detail::memory)->driver, DriverState::no_driver);
  std::filesystem::copy_file(MUSTER_NVML_STUB, library);
  EXPECT_EQ(inventory->read(Detail::memory)->driver, DriverState::ready);
}

TEST_F(NvmlInventory, RefusesALibraryWithoutTheBasicCalls) {
  const auto result = read("", Detail::everything, MUSTER_NOT_NVML);
  ASSERT_FALSE(result);
  EXPECT_TRUE(contains(result.error().what, "too old", "nvmlInit_v2"));
  EXPECT_TRUE(contains(result.error().remedy, "install driver"));
}

// The loader reads LD_LIBRARY_PATH when a program starts, so this runs in a new process.
using NvmlInventoryDeathTest = NvmlInventory;

TEST_F(NvmlInventoryDeathTest, IsFoundWhereTheLoaderLooks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* before = std::getenv("LD_LIBRARY_PATH");
  std::string folders = std::filesystem::path(MUSTER_NVML_STUB).parent_path().string();
  if (before != nullptr) folders += std::string(":") + before;
  const testing::EnvironmentVariable path("LD_LIBRARY_PATH", folders);
  const testing::EnvironmentVariable fail("MUSTER_NVML_STUB_FAIL", std::nullopt);
  EXPECT_EXIT(
      {
        const auto seen = open_nvml_inventory()->read(Detail::everything);
        std::fprintf(stderr, "%s", seen->gpus.at(1).facts.uuid->text.c_str());
        std::_Exit(seen->driver == DriverState::ready ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "GPU-0a1b2c3d-0000-1111-2222-333344445555");
}

}  // namespace
}  // namespace muster::gpu
