#include "gpu/numa_binding.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "testing/scratch_folder.hpp"

namespace muster::gpu {
namespace {

using Cpus = std::vector<int>;
using Nodes = std::vector<std::optional<int>>;

// Two sockets, two NUMA nodes each, four cores a node with two threads each: cores 0-15, their second threads 16-31.
// Two cores share a last-level cache.
class NumaMachine : public ::testing::Test {
 protected:
  NumaMachine() {
    for (int node = 0; node < 4; ++node)
      write(fmt::format("node/node{}/cpulist", node),
            fmt::format("{}-{},{}-{}", 4 * node, 4 * node + 3, 16 + 4 * node, 19 + 4 * node));
    for (int cpu = 0; cpu < 32; ++cpu) {
      const int core = cpu % 16, pair = core / 2 * 2;
      const std::string cpu_folder = fmt::format("cpu/cpu{}/", cpu);
      write(cpu_folder + "topology/thread_siblings_list", fmt::format("{},{}", core, core + 16));
      write(cpu_folder + "topology/physical_package_id", std::to_string(core / 8));
      write(cpu_folder + "cache/index0/type", "Instruction");
      write(cpu_folder + "cache/index0/level", "9");
      write(cpu_folder + "cache/index0/shared_cpu_list", std::to_string(cpu));
      write(cpu_folder + "cache/index1/type", "Unified");
      write(cpu_folder + "cache/index1/level", "3");
      write(cpu_folder + "cache/index1/shared_cpu_list",
            fmt::format("{}-{},{}-{}", pair, pair + 1, pair + 16, pair + 17));
    }
    for (int cpu = 0; cpu < 32; ++cpu) everything.push_back(cpu);
  }
  void write(const std::string& file, const std::string& text) {
    const auto path = folder.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  auto bind(NumaBinding binding, const Nodes& nodes) { return bind_cpus(binding, nodes, everything, folder.path()); }

  testing::ScratchFolder folder;
  Cpus everything;
};

TEST_F(NumaMachine, NodeGivesAllCpusOfTheGpusNode) {
  const auto bound = bind(NumaBinding::node, {0, 3});
  ASSERT_TRUE(bound);
  EXPECT_EQ((*bound)[0], (Cpus{0, 1, 2, 3, 16, 17, 18, 19}));
  EXPECT_EQ((*bound)[1], (Cpus{12, 13, 14, 15, 28, 29, 30, 31}));
}

TEST_F(NumaMachine, AnUnknownNodeMeansTheFirst) {
  EXPECT_EQ((*bind(NumaBinding::node, {std::nullopt}))[0], (*bind(NumaBinding::node, {0}))[0]);
}

TEST_F(NumaMachine, SocketGivesAllCpusOfAllNodesOfTheSocket) {
  const auto bound = bind(NumaBinding::socket, {1});
  ASSERT_TRUE(bound);
  EXPECT_EQ((*bound)[0], (Cpus{0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23}));
}

TEST_F(NumaMachine, ExclusiveDealsOutWholeCoresAndTheFirstGetOneMore) {
  const auto bound = bind(NumaBinding::exclusive, {0, 1, 0, 0});
  ASSERT_TRUE(bound);
  EXPECT_EQ((*bound)[0], (Cpus{0, 1, 16, 17}));
  EXPECT_EQ((*bound)[2], (Cpus{2, 18}));
  EXPECT_EQ((*bound)[3], (Cpus{3, 19}));
  EXPECT_EQ((*bound)[1], (Cpus{4, 5, 6, 7, 20, 21, 22, 23}));
}

TEST_F(NumaMachine, ExclusiveRefusesMoreGpusThanCores) { EXPECT_FALSE(bind(NumaBinding::exclusive, {0, 0, 0, 0, 0})); }

TEST_F(NumaMachine, CoreComplexGivesOneCachesCpusToEachGpuInTurn) {
  const auto bound = bind(NumaBinding::core_complex, {0, 0, 0});
  ASSERT_TRUE(bound);
  EXPECT_EQ((*bound)[0], (Cpus{0, 1, 16, 17}));
  EXPECT_EQ((*bound)[1], (Cpus{2, 3, 18, 19}));
  EXPECT_EQ((*bound)[2], (Cpus{0, 1, 16, 17}));
}

TEST_F(NumaMachine, OnlyCpusThatThisProcessMayUseAreGiven) {
  everything = {2, 3, 4, 20};
  EXPECT_EQ((*bind(NumaBinding::node, {0}))[0], (Cpus{2, 3}));
  EXPECT_FALSE(bind(NumaBinding::node, {3}));
}

TEST_F(NumaMachine, AMachineThatDoesNotTellIsRefusedWithThePath) {
  const auto bound = bind(NumaBinding::node, {9});
  ASSERT_FALSE(bound);
  EXPECT_NE(bound.error().what.find("node/node9/cpulist"), std::string::npos);
}

TEST(NumaBindingWords, AreTorchruns) {
  EXPECT_EQ(parse_numa_binding("core-complex"), NumaBinding::core_complex);
  EXPECT_EQ(parse_numa_binding("near"), std::nullopt);
}

}  // namespace
}  // namespace muster::gpu
