#include "gpu/kernel_listing.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "gpu/inventory.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::gpu {
namespace {

// The files of a kernel module with some GPUs.
class KernelListing : public ::testing::Test {
 protected:
  void add(const std::string& place, const std::string& uuid, int minor) {
    write(fmt::format("proc/driver/nvidia/gpus/{}/information", place),
          fmt::format(
              "Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\nGPU UUID: \t {}\nBus Location: \t {}\nDevice Minor: \t {}\n"
              "GPU Excluded:\t No\n",
              uuid, place, minor));
    write(fmt::format("dev/nvidia{}", minor), "");
  }
  void write(const std::string& name, const std::string& text) {
    const auto path = folder.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  auto list() { return list_from_kernel(folder.path()); }

  static constexpr const char* first = "GPU-86ff56d8-991c-043b-ff78-72ea1b356a27";
  static constexpr const char* second = "GPU-11ff56d8-991c-043b-ff78-72ea1b356a27";
  muster::testing::ScratchFolder folder;
};

TEST_F(KernelListing, IsAbsentWithoutTheKernelModule) { EXPECT_FALSE(list()); }

TEST_F(KernelListing, CountsInPciBusOrder) {
  add("0000:3b:00.0", first, 1);
  add("0000:1a:00.0", second, 0);
  const auto gpus = list();
  ASSERT_TRUE(gpus);
  ASSERT_EQ(gpus->size(), 2u);
  EXPECT_EQ((*gpus)[0].facts.uuid->text, second);
  EXPECT_EQ((*gpus)[1].facts.uuid->text, first);
  EXPECT_EQ(number((*gpus)[1].facts.index), 1);
  EXPECT_EQ((*gpus)[1].facts.name, "NVIDIA H200");
  EXPECT_EQ((*gpus)[1].facts.pci_bus_id, "00000000:3B:00.0");
}

TEST_F(KernelListing, LeavesOutADeviceThatCannotBeOpened) {
  add("0000:1a:00.0", second, 0);
  add("0000:3b:00.0", first, 1);
  std::filesystem::remove(folder.path() / "dev/nvidia0");
  ASSERT_TRUE(list());
  ASSERT_EQ(list()->size(), 1u);
  EXPECT_EQ(number(list()->front().facts.index), 0);
}

TEST_F(KernelListing, SaysNothingWhileAUuidIsNotKnown) {
  add("0000:1a:00.0", "GPU-" + std::string(36, '?'), 0);
  EXPECT_FALSE(list());
}

TEST_F(KernelListing, SaysNothingAboutMigInstances) {
  add("0000:1a:00.0", first, 0);
  std::filesystem::create_directories(folder.path() / "proc/driver/nvidia/capabilities/gpu0/mig");
  EXPECT_TRUE(list());
  std::filesystem::create_directories(folder.path() / "proc/driver/nvidia/capabilities/gpu0/mig/gi1");
  EXPECT_FALSE(list());
}

TEST(KernelListingHere, AgreesWithTheDriverWhereThereIsOne) {
  const auto gpus = list_from_kernel();
  const auto snapshot = open_nvml_inventory()->read(Detail::memory);
  if (!gpus || !snapshot) return;
  ASSERT_EQ(gpus->size(), snapshot->gpus.size());
  for (std::size_t i = 0; i < gpus->size(); ++i) EXPECT_EQ((*gpus)[i].facts.uuid, snapshot->gpus[i].facts.uuid);
}

}  // namespace
}  // namespace muster::gpu
