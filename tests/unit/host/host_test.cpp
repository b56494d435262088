#include "host/host.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "testing/environment_variable.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::host {
namespace {

using testing::EnvironmentVariable;

class HostTest : public ::testing::Test {
 protected:
  Host host(const std::string& inventory, std::optional<std::string> mask = std::nullopt) {
    HostSources sources;
    sources.inventory_file = folder_.write("gpus.yaml", inventory);
    sources.mask = std::move(mask);
    sources.lease_folder = folder_.path() / "leases";
    return Host(std::move(sources));
  }

  static Result<std::vector<gpu::VisibleIndex>> pick_now(Host&& on, const gpu::SelectionRequest& request) {
    const auto view = on.look();
    if (!view) return view.error();
    return pick(*view, request);
  }
  static Result<std::vector<gpu::VisibleIndex>> pick_now(Host& on, const gpu::SelectionRequest& request) {
    return pick_now(std::move(on), request);
  }

  testing::ScratchFolder folder_;
  EnvironmentVariable no_outer_lease_{"MUSTER_LEASE", std::nullopt};
  const std::string four_ = "gpus: [{count: 4, memory_total: 40GiB}]\n";
};

TEST_F(HostTest, HoldsWhatItPickedAndShowsItToOthers) {
  Host mine = host(four_), theirs = host(four_);
  auto grant = mine.hold({.count = 2}, {.command = "training"}, gpu::MaskForm::as_inherited);
  ASSERT_TRUE(grant) << grant.error().what;
  EXPECT_EQ(grant->mask, "0,1");
  const auto view = theirs.look();
  ASSERT_TRUE(view);
  EXPECT_EQ(view->holders.size(), 2U);
  EXPECT_EQ(view->holders.begin()->second.command, "training");
  EXPECT_EQ(pick_now(theirs, {.count = 2}).value(), (std::vector{gpu::VisibleIndex{2}, gpu::VisibleIndex{3}}));
  const auto refused = theirs.hold({.count = 3}, {}, gpu::MaskForm::as_inherited);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Error::Kind::refused);
  grant->lease.reset();
  EXPECT_TRUE(theirs.hold({.count = 4}, {}, gpu::MaskForm::as_inherited));
}

TEST_F(HostTest, ComposesTheMaskOfAChoiceFromTheLookThatItWasMadeIn) {
  Host masked = host(four_, "3,2,1");
  auto view = masked.look();
  ASSERT_TRUE(view);
  host("gpus: [{count: 1, memory_total: 40GiB}]\n");  // the machine changes
  const auto choice = choose(std::move(*view), {.ids = gpu::gpu_names({"1", "0"})});
  ASSERT_TRUE(choice) << choice.error().what;
  EXPECT_EQ(choice->mask, "2,3");
  EXPECT_EQ(gpu::number(choice->visible_devices()[0].gpu), 2);
}

TEST_F(HostTest, GrantsComeWithTheLookThatTheyWereChosenFrom) {
  Host mine = host(four_);
  const auto grant = mine.hold({.ids = gpu::gpu_names({"2"})}, {}, gpu::MaskForm::as_inherited);
  ASSERT_TRUE(grant) << grant.error().what;
  EXPECT_EQ(grant->view.visible.size(), 4U);
  EXPECT_EQ(gpu::number(grant->view.gpu_of(grant->devices[0]).facts.index), 2);
}

TEST_F(HostTest, GivesChildrenTheMaskTheOrderAndTheLease) {
  Host masked = host("gpus: [{count: 8, memory_total: 40GiB}]\n", "4,5,6,7");
  const auto grant = masked.hold({.ids = gpu::gpu_names({"1", "0"})}, {}, gpu::MaskForm::as_inherited);
  ASSERT_TRUE(grant) << grant.error().what;
  ASSERT_EQ(grant->environment.size(), 3U);
  EXPECT_EQ(grant->environment[0].second, "5,4");
  EXPECT_EQ(grant->environment[1].first, "CUDA_DEVICE_ORDER");
  EXPECT_EQ(grant->environment[2].first, "MUSTER_LEASE");
  EXPECT_EQ(gpu::number(grant->devices[0].gpu), 5);
}

TEST_F(HostTest, WritesUuidsBesideALostGpuBecauseNumbersWouldBeMisread) {
  Host broken = host("gpus: [{memory_total: 40GiB, lost: true}, {memory_total: 40GiB}]\n");
  const auto grant = broken.hold({.count = 1}, {}, gpu::MaskForm::as_inherited);
  ASSERT_TRUE(grant) << grant.error().what;
  EXPECT_TRUE(grant->mask.starts_with("GPU-")) << grant->mask;
  EXPECT_EQ(gpu::number(grant->devices[0].gpu), 1);
}

TEST_F(HostTest, WritesUuidsWhereNumbersHaveGapsForTheSameReason) {
  Host part = host("gpus: [{index: 1, memory_total: 40GiB}, {index: 3, memory_total: 40GiB}]\n");
  const auto grant = part.hold({.count = 1}, {}, gpu::MaskForm::as_inherited);
  ASSERT_TRUE(grant) << grant.error().what;
  EXPECT_TRUE(grant->mask.starts_with("GPU-")) << grant->mask;
}

TEST_F(HostTest, HoldsVisibleGpusAsTheyAreAndNoMoreThanThereAre) {
  const std::string inventory = "gpus: [{count: 3, memory_total: 40GiB}, {memory_total: 40GiB, healthy: false}]\n";
  Host mine = host(inventory, "3,1,0");
  const auto grant = mine.hold_visible(0, 2, {.command = "ranks"});
  ASSERT_TRUE(grant) << grant.error().what;
  ASSERT_EQ(grant->devices.size(), 2U);
  EXPECT_EQ(gpu::number(grant->devices[0].gpu), 3) << "whoever set the mask chose it, healthy or not";
  EXPECT_EQ(host(inventory).look()->holders.size(), 2U);
  EXPECT_EQ(host(inventory, "2").hold_visible(0, 8, {})->devices.size(), 1U);
  EXPECT_TRUE(host(inventory, "2").hold_visible(1, 8, {})->devices.empty());
  EXPECT_FALSE(host(inventory, "").hold_visible(0, 8, {})->lease);
}

TEST_F(HostTest, NamesTheHolderOfAVisibleGpuThatIsTaken) {
  Host mine = host(four_), theirs = host(four_);
  const auto grant = mine.hold_visible(1, 1, {.command = "first-run"});
  ASSERT_TRUE(grant) << grant.error().what;
  const auto refused = theirs.hold_visible(0, 2, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Error::Kind::refused);
  EXPECT_NE(refused.error().what.find("first-run"), std::string::npos);
}

TEST_F(HostTest, SharesKnowinglyWithoutALease) {
  Host mine = host(four_), theirs = host(four_);
  const auto grant = mine.hold({.count = 4}, {}, gpu::MaskForm::as_inherited);
  ASSERT_TRUE(grant);
  const auto shared = theirs.hold({.count = 4}, {.share = true}, gpu::MaskForm::as_inherited);
  ASSERT_TRUE(shared) << shared.error().what;
  EXPECT_FALSE(shared->lease);
  EXPECT_EQ(shared->environment.size(), 2U);
}

TEST_F(HostTest, TellsOfProgramsThatUseAGpuWithoutALease) {
  Host shared = host("gpus: [{memory_total: 40GiB, processes: [{pid: 41877, user: alice, memory: 31GiB}]}]\n");
  const auto grant = shared.hold({.count = 1, .minimum_free = gibibytes(1)}, {}, gpu::MaskForm::as_inherited);
  ASSERT_TRUE(grant) << grant.error().what;
  EXPECT_EQ(grant->notes, std::vector<std::string>{"GPU 0 is in use by alice (pid 41877, 31.0 GiB), without a lease"});
}

TEST_F(HostTest, LeavesAGpuAloneThatAProcessWithoutALeaseComputesOn) {
  const std::string one_busy =
      "gpus: [{memory_total: 40GiB, processes: [{pid: 41877, user: alice, memory: 31GiB}]}, {memory_total: 40GiB}]\n";
  Host mine = host(one_busy);
  EXPECT_EQ(pick_now(mine, {}).value(), std::vector{gpu::VisibleIndex{1}});
  const auto grant = mine.hold({.count = 1}, {}, gpu::MaskForm::as_inherited);
  ASSERT_TRUE(grant) << grant.error().what;
  EXPECT_EQ(grant->mask, "1");
  for (const auto& refused : {mine.hold({.ids = gpu::gpu_names({"0"})}, {}, gpu::MaskForm::as_inherited), mine.hold_visible(0, 1, {})}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, Error::Kind::refused);
    EXPECT_NE(refused.error().what.find("in use by alice (pid 41877, 31.0 GiB), without a lease"), std::string::npos)
        << refused.error().what;
  }
  const auto shared = mine.hold({.ids = gpu::gpu_names({"0"})}, {.share = true}, gpu::MaskForm::as_inherited);
  ASSERT_TRUE(shared) << shared.error().what;
  EXPECT_EQ(shared->mask, "0");
}

TEST_F(HostTest, UsesAGpuThatOnlyDrawsAScreenOrHasAnIdleServer) {
  Host mine = host(
      "gpus: [{memory_total: 40GiB, processes: [{pid: 900, user: root, command: Xorg, memory: 600MiB, graphics: true},"
      " {pid: 901, user: root, command: nvidia-cuda-mps-server, memory: 30MiB}]}]\n");
  const auto grant = mine.hold({.count = 1}, {}, gpu::MaskForm::as_inherited);
  ASSERT_TRUE(grant) << grant.error().what;
  EXPECT_TRUE(grant->notes.empty());
}

TEST_F(HostTest, TakesAProcessForBusyWhoseMemoryIsNotKnown) {
  EXPECT_FALSE(pick_now(host("gpus: [{memory_total: 40GiB, processes: [{pid: 41877}]}]\n"), {.count = 1}));
}

TEST_F(HostTest, CountsNoProcessOfTheLeaseItRunsInAsAStranger) {
  const std::string busy = "gpus: [{memory_total: 40GiB, processes: [{pid: 41877, user: alice, memory: 31GiB}]}]\n";
  Host outer = host(four_);
  auto grant = outer.hold({.count = 1}, {}, gpu::MaskForm::as_inherited);
  ASSERT_TRUE(grant) << grant.error().what;
  const auto [name, value] = grant->lease->pass_on_exec();
  EXPECT_FALSE(pick_now(host(busy), {.count = 1})) << "outside of the lease it is leased";
  const EnvironmentVariable inside(name.c_str(), value);
  EXPECT_TRUE(pick_now(host(busy), {.count = 1}));
  EXPECT_TRUE(host(busy).hold({.count = 1}, {}, gpu::MaskForm::as_inherited));
}

TEST_F(HostTest, WaitsUntilAProcessWithoutALeaseIsGone) {
  Host waiting = host("gpus: [{memory_total: 40GiB, processes: [{pid: 41877, user: alice, memory: 31GiB}]}]\n");
  LeaseRequest request;
  request.wait = std::chrono::minutes(5);
  std::string reason;
  request.on_waiting = [&](const std::string& text) {
    reason = text;
    folder_.write("gpus.yaml", "gpus: [{memory_total: 40GiB}]\n");
  };
  EXPECT_TRUE(waiting.hold({.count = 1}, request, gpu::MaskForm::as_inherited));
  EXPECT_NE(reason.find("alice"), std::string::npos) << reason;
}

TEST_F(HostTest, StopsWaitingWhenAsked) {
  Host mine = host(four_), theirs = host(four_);
  const auto grant = mine.hold({.count = 4}, {}, gpu::MaskForm::as_inherited);
  ASSERT_TRUE(grant);
  std::stop_source stop;
  LeaseRequest request;
  request.wait = std::chrono::hours(1);
  request.stop = stop.get_token();
  request.on_waiting = [&](const std::string&) { stop.request_stop(); };
  const auto refused = theirs.hold({.count = 1}, request, gpu::MaskForm::as_inherited);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Error::Kind::refused);
}

TEST_F(HostTest, LooksAgainWhileItWaits) {
  Host waiting = host("gpus: [{memory_total: 40GiB, memory_used: 39GiB}]\n");
  LeaseRequest request;
  request.wait = std::chrono::minutes(5);
  request.on_waiting = [&](const std::string&) {
    folder_.write("gpus.yaml", "gpus: [{memory_total: 40GiB, memory_used: 0}]\n");
  };
  EXPECT_TRUE(waiting.hold({.count = 1, .minimum_free = gibibytes(20)}, request, gpu::MaskForm::as_inherited));
}

TEST_F(HostTest, LeasesMigInstancesOneByOne) {
  const std::string cut =
      "gpus:\n  - memory_total: 80GiB\n    mig:\n      - {uuid: MIG-aaaa, gpu_instance: 1, compute_instance: 0}\n"
      "      - {uuid: MIG-bbbb, gpu_instance: 2, compute_instance: 0}\n";
  Host mine = host(cut), theirs = host(cut);
  const auto first = mine.hold({.count = 1}, {}, gpu::MaskForm::as_inherited);
  ASSERT_TRUE(first) << first.error().what;
  EXPECT_EQ(first->mask, "MIG-aaaa");
  const auto second = theirs.hold({.count = 1}, {}, gpu::MaskForm::as_inherited);
  ASSERT_TRUE(second) << second.error().what;
  EXPECT_EQ(second->mask, "MIG-bbbb");
}

TEST_F(HostTest, SaysWhyThereIsNoGpu) {
  Host none = host("gpus: []\n");
  const auto refused = pick_now(none, {.count = 1});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what.find("no GPU is visible here"), std::string::npos);
  EXPECT_FALSE(host(four_, "0,9").look());
}

}  // namespace
}  // namespace muster::host
