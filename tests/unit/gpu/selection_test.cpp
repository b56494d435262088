#include "gpu/selection.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace muster::gpu {
namespace {

std::vector<Candidate> idle(int count, ByteCount total = gibibytes(40)) {
  std::vector<Candidate> candidates;
  for (int i = 0; i < count; ++i) {
    Candidate candidate;
    candidate.gpu = static_cast<GpuIndex>(i);
    candidate.uuid = GpuUuid{"GPU-" + std::string(1, static_cast<char>('a' + i % 26)) + "00000-" + std::to_string(i)};
    candidate.total = total;
    candidate.used = ByteCount{};
    candidate.free = total;
    candidate.utilization = 0;
    candidates.push_back(candidate);
  }
  return candidates;
}

void use(Candidate& candidate, ByteCount used, int utilization = 0) {
  candidate.used = used;
  candidate.free = *candidate.total - used;
  candidate.utilization = utilization;
}

std::vector<int> numbers(const Result<std::vector<VisibleIndex>>& chosen) {
  std::vector<int> result;
  if (!chosen) {
    ADD_FAILURE() << chosen.error().what;
    return result;
  }
  for (const VisibleIndex index : *chosen) result.push_back(number(index));
  return result;
}

// What is wrong, or "" when the selection succeeds.
Error refusal(const SelectionRequest& request, std::span<const Candidate> candidates) {
  const auto chosen = select(request, candidates, {});
  EXPECT_FALSE(chosen) << "it was granted";
  return chosen ? Error{} : chosen.error();
}

using Numbers = std::vector<int>;

TEST(Selection, KeepsTheOrderOfTheIds) {
  EXPECT_EQ(numbers(select({.ids = gpu_names({"5", "0", "2"})}, idle(8), {})), (Numbers{5, 0, 2}));
  EXPECT_EQ(numbers(select({.ids = gpu_names({"GPU-c", "1"})}, idle(8), {})), (Numbers{2, 1}));
}

TEST(Selection, RefusesUnknownIdsAndListsTheAvailableOnes) {
  const Error error = refusal({.ids = gpu_names({"4", "0", "7"})}, idle(4));
  EXPECT_EQ(error.kind, Error::Kind::bad_input);
  EXPECT_NE(error.what.find("no visible GPU 4, 7; available: 0, 1, 2, 3"), std::string::npos) << error.what;
  EXPECT_EQ(refusal({.ids = gpu_names({"-1"})}, idle(4)).kind, Error::Kind::bad_input);
  EXPECT_EQ(refusal({.ids = gpu_names({"one"})}, idle(4)).kind, Error::Kind::bad_input);
  EXPECT_EQ(refusal({.ids = gpu_names({"GPU-"})}, idle(4)).kind, Error::Kind::bad_input) << "the beginning of several";
}

TEST(Selection, RefusesDuplicateIdsAlsoUnderTwoNames) {
  EXPECT_NE(refusal({.ids = gpu_names({"1", "2", "1"})}, idle(4)).what.find("named twice"), std::string::npos);
  EXPECT_NE(refusal({.ids = gpu_names({"0", "GPU-a"})}, idle(4)).what.find("named twice"), std::string::npos);
}

TEST(Selection, RefusesIdsTogetherWithADifferentCount) {
  EXPECT_EQ(numbers(select({.ids = gpu_names({"1", "3"}), .count = 2}, idle(4), {})), (Numbers{1, 3}));
  EXPECT_EQ(refusal({.ids = gpu_names({"1", "3"}), .count = 4}, idle(4)).kind, Error::Kind::bad_input);
}

TEST(Selection, GivesExactlyTheCountOrSaysWhatBlockedEach) {
  auto candidates = idle(4);
  candidates[0].holder = "alice (pid 7)";
  candidates[1].sickness = "Xid 79";
  use(candidates[2], gibibytes(39));
  EXPECT_EQ(numbers(select({.count = 1, .minimum_free = gibibytes(20)}, candidates, {})), Numbers{3});
  const Error error = refusal({.count = 2, .minimum_free = gibibytes(20)}, candidates);
  EXPECT_EQ(error.kind, Error::Kind::refused);
  for (const char* part : {"2 GPUs asked for, 1 available", "GPU 0: leased by alice (pid 7)",
                           "GPU 1: unhealthy: Xid 79", "GPU 2: 1.0 GiB free, 20.0 GiB needed", "GPU 3: available"})
    EXPECT_NE(error.what.find(part), std::string::npos) << part << " in\n" << error.what;
  EXPECT_EQ(error.remedy.find("--wait"), std::string::npos) << "the command has no such option";
  SelectionRequest waiting{.count = 2, .minimum_free = gibibytes(20)};
  waiting.offered.wait = true;
  EXPECT_NE(refusal(waiting, candidates).remedy.find("--wait"), std::string::npos);
}

TEST(Selection, TreatsUpToAsAWishOfItsOwn) {
  auto candidates = idle(4);
  candidates[2].holder = "bob";
  EXPECT_EQ(numbers(select({.count = 8, .up_to = true}, candidates, {})), (Numbers{0, 1, 3}));
  EXPECT_EQ(numbers(select({.count = 2, .up_to = true}, candidates, {})), (Numbers{0, 1}));
  for (Candidate& candidate : candidates) candidate.holder = "bob";
  EXPECT_EQ(refusal({.count = 8, .up_to = true}, candidates).kind, Error::Kind::refused) << "none is not up to eight";
}

TEST(Selection, TakesAllThatQualifyWhenNoCountIsGiven) {
  auto candidates = idle(4);
  candidates[1].sickness = "row remap failed";
  EXPECT_EQ(numbers(select({}, candidates, {})), (Numbers{0, 2, 3}));
  EXPECT_EQ(numbers(select({.allow_unhealthy = true}, candidates, {})), (Numbers{0, 1, 2, 3}));
}

TEST(Selection, PutsTheLeastLoadedFirstOnRequest) {
  auto candidates = idle(4);
  use(candidates[0], gibibytes(10), 90);
  use(candidates[1], gibibytes(1), 5);
  use(candidates[3], mebibytes(3), 0);
  EXPECT_EQ(numbers(select({.count = 2, .least_loaded = true}, candidates, {})), (Numbers{2, 3}));
  EXPECT_EQ(numbers(select({.count = 3, .least_loaded = true}, candidates, {})), (Numbers{2, 3, 1}));
  EXPECT_EQ(numbers(select({.count = 2}, candidates, {})), (Numbers{0, 1})) << "without the wish, the first ones";
}

TEST(Selection, FiltersByUtilisationAndNeverTakesUnknownForLow) {
  auto candidates = idle(3);
  use(candidates[0], gibibytes(1), 50);
  candidates[1].utilization.reset();
  EXPECT_EQ(numbers(select({.count = 1, .maximum_utilization = 10}, candidates, {})), Numbers{2});
  EXPECT_NE(
      refusal({.count = 3, .maximum_utilization = 10}, candidates).what.find("GPU 1: does not report its utilisation"),
      std::string::npos);
  candidates[2].free.reset();
  EXPECT_NE(refusal({.count = 3, .minimum_free = gibibytes(1)}, candidates)
                .what.find("GPU 2: does not report its free memory"),
            std::string::npos);
}

TEST(Selection, NeverGivesOutALostGpu) {
  auto candidates = idle(2);
  candidates[0].uuid.reset();
  EXPECT_EQ(numbers(select({.count = 1, .allow_unhealthy = true, .allow_leased = true}, candidates, {})), Numbers{1});
  EXPECT_NE(refusal({.ids = gpu_names({"0"})}, candidates).what.find("lost"), std::string::npos);
}

TEST(Selection, HoldsNamedGpusToTheSameConditions) {
  auto candidates = idle(2);
  candidates[1].holder = "carol (pid 9)";
  const Error error = refusal({.ids = gpu_names({"0", "1"})}, candidates);
  EXPECT_EQ(error.kind, Error::Kind::refused);
  EXPECT_NE(error.what.find("GPU 1: leased by carol (pid 9)"), std::string::npos) << error.what;
  EXPECT_EQ(numbers(select({.ids = gpu_names({"0", "1"}), .allow_leased = true}, candidates, {})), (Numbers{0, 1}));
}

TEST(Selection, LeavesAGpuAloneThatSomebodyComputesOnWithoutALease) {
  auto candidates = idle(4);
  use(candidates[1], gibibytes(31), 97);
  candidates[1].occupant = "alice (pid 41877, 31.0 GiB)";
  EXPECT_EQ(numbers(select({.count = 3}, candidates, {})), (Numbers{0, 2, 3}));
  EXPECT_EQ(numbers(select({}, candidates, {})), (Numbers{0, 2, 3}));
  const Error error = refusal({.count = 4, .offered = {.share = true}}, candidates);
  EXPECT_EQ(error.kind, Error::Kind::refused);
  EXPECT_NE(error.what.find("GPU 1: in use by alice (pid 41877, 31.0 GiB), without a lease"), std::string::npos)
      << error.what;
  EXPECT_NE(error.remedy.find("--share"), std::string::npos) << error.remedy;
}

TEST(Selection, RefusesANamedGpuThatSomebodyComputesOnUnlessItIsToBeShared) {
  auto candidates = idle(2);
  candidates[1].occupant = "alice (pid 41877)";
  const Error error = refusal({.ids = gpu_names({"1"}), .offered = {.share = true}}, candidates);
  EXPECT_EQ(error.kind, Error::Kind::refused);
  EXPECT_NE(error.what.find("alice (pid 41877)"), std::string::npos) << error.what;
  EXPECT_NE(error.remedy.find("--share"), std::string::npos) << error.remedy;
  EXPECT_EQ(numbers(select({.ids = gpu_names({"1"}), .allow_busy = true}, candidates, {})), Numbers{1});
}

TEST(Selection, TakesBusyGpusLastWhereALimitSaysHowBusyTheyMayBe) {
  auto candidates = idle(4);
  use(candidates[0], gibibytes(1), 5);
  candidates[0].occupant = "alice (pid 41877)";
  EXPECT_EQ(numbers(select({.count = 2, .minimum_free = gibibytes(5)}, candidates, {})), (Numbers{1, 2}));
  EXPECT_EQ(numbers(select({.count = 4, .minimum_free = gibibytes(5)}, candidates, {})), (Numbers{1, 2, 3, 0}));
  EXPECT_EQ(numbers(select({.count = 4, .maximum_utilization = 10}, candidates, {})), (Numbers{1, 2, 3, 0}));
  EXPECT_EQ(numbers(select({.count = 4, .allow_busy = true}, candidates, {})), (Numbers{1, 2, 3, 0}));
}

TEST(Selection, RefusesSenselessWishes) {
  for (const SelectionRequest& request :
       {SelectionRequest{.count = 0}, SelectionRequest{.count = -1}, SelectionRequest{.up_to = true},
        SelectionRequest{.maximum_utilization = 101}, SelectionRequest{.model = ModelNeed{ByteCount{}, 1.5}},
        SelectionRequest{.model = ModelNeed{gibibytes(1), -1}}})
    EXPECT_EQ(refusal(request, idle(4)).kind, Error::Kind::bad_input);
}

TEST(Selection, SaysSoWhenNothingIsVisible) {
  const Error error = refusal({.count = 1}, {});
  EXPECT_EQ(error.kind, Error::Kind::refused);
  EXPECT_NE(error.what.find("no GPU is visible"), std::string::npos);
}

TEST(SelectionForAModel, TakesOneGpuWhenItFitsAndTheSmallestSetWhenNot) {
  const ModelNeed small{gibibytes(14)}, large{gibibytes(140)};
  EXPECT_EQ(numbers(select({.model = small}, idle(8, gibibytes(40)), {})).size(), 1U) << "14 × 1.5 = 21 GiB";
  EXPECT_EQ(numbers(select({.model = large}, idle(8, gibibytes(40)), {})).size(), 6U) << "210 GiB in parts of 35";
  EXPECT_EQ(numbers(select({.model = large}, idle(4, gibibytes(80)), {})).size(), 3U) << "210 GiB in parts of 70";
}

TEST(SelectionForAModel, NamesTheShortfallWhenNothingIsLargeEnough) {
  const Error error = refusal({.model = ModelNeed{gibibytes(1024)}}, idle(8, gibibytes(40)));
  EXPECT_EQ(error.kind, Error::Kind::refused);
  EXPECT_NE(error.what.find("need 1.5 TiB"), std::string::npos) << error.what;
  EXPECT_NE(error.what.find("1.2 TiB are missing"), std::string::npos) << error.what;
}

TEST(SelectionForAModel, CountsOnlyMemoryThatIsFree) {
  auto candidates = idle(4, gibibytes(80));
  for (int i = 0; i < 3; ++i) use(candidates[static_cast<std::size_t>(i)], gibibytes(70));
  EXPECT_EQ(numbers(select({.model = ModelNeed{gibibytes(40)}}, candidates, {})), Numbers{3});
  EXPECT_EQ(refusal({.model = ModelNeed{gibibytes(70)}}, candidates).kind, Error::Kind::refused);
}

TEST(SelectionProperty, WhatIsGrantedMeetsEveryCondition) {
  std::mt19937 random(99);
  int granted = 0, refused = 0;
  for (int round = 0; round < 5000; ++round) {
    auto candidates = idle(1 + static_cast<int>(random() % 10));
    for (Candidate& candidate : candidates) {
      use(candidate, gibibytes(static_cast<std::int64_t>(random() % 40)), static_cast<int>(random() % 101));
      if (random() % 5 == 0) candidate.holder = "someone";
      if (random() % 7 == 0) candidate.sickness = "sick";
      if (random() % 11 == 0) candidate.uuid.reset();
    }
    SelectionRequest request;
    request.count = 1 + static_cast<int>(random() % 4);
    if (random() % 2 == 0) request.minimum_free = gibibytes(static_cast<std::int64_t>(random() % 30));
    if (random() % 2 == 0) request.maximum_utilization = static_cast<int>(random() % 101);
    request.least_loaded = random() % 2 == 0;
    const auto qualifies = [&](const Candidate& c) {
      return c.uuid && !c.holder && !c.sickness && (!request.minimum_free || *c.free >= *request.minimum_free) &&
             (!request.maximum_utilization || *c.utilization <= *request.maximum_utilization);
    };
    const auto possible = std::ranges::count_if(candidates, qualifies);
    const auto chosen = select(request, candidates, {});
    ASSERT_EQ(static_cast<bool>(chosen), possible >= *request.count);
    if (!chosen) {
      ++refused;
      continue;
    }
    ++granted;
    ASSERT_EQ(std::ssize(*chosen), *request.count);
    std::vector<bool> taken(candidates.size(), false);
    for (const VisibleIndex index : *chosen) {
      ASSERT_TRUE(qualifies(candidates[static_cast<std::size_t>(number(index))]));
      ASSERT_FALSE(taken[static_cast<std::size_t>(number(index))]);
      taken[static_cast<std::size_t>(number(index))] = true;
    }
    if (request.least_loaded)
      for (std::size_t i = 0; i < candidates.size(); ++i)
        for (const VisibleIndex index : *chosen)
          if (!taken[i] && qualifies(candidates[i])) {
            ASSERT_GE(candidates[i].used->value >> 29,
                      candidates[static_cast<std::size_t>(number(index))].used->value >> 29);
          }
  }
  EXPECT_GT(granted, 500);
  EXPECT_GT(refused, 500);
}

// Eight GPUs: NVLink pairs 0-1, 2-3, 4-5, 6-7; two NUMA nodes of four.
struct Paired {
  std::vector<Gpu> gpus{8};
  std::vector<Link> links;
  std::vector<GpuIndex> gpu_of;
  Topology topology;
  Paired() {
    for (int a = 0; a < 8; ++a) {
      gpus[static_cast<std::size_t>(a)].facts.index = static_cast<GpuIndex>(a);
      gpus[static_cast<std::size_t>(a)].facts.numa_node = a / 4;
      gpu_of.push_back(static_cast<GpuIndex>(a));
      for (int b = a + 1; b < 8; ++b) {
        const LinkKind kind = a / 2 == b / 2 ? LinkKind::nvlink : a / 4 == b / 4 ? LinkKind::phb : LinkKind::sys;
        links.push_back({static_cast<GpuIndex>(a), static_cast<GpuIndex>(b), kind, kind == LinkKind::nvlink ? 4 : 0});
      }
    }
    topology = Topology(gpus, links, gpu_of);
  }
};

TEST(SelectionByLinks, TakesAPairThatIsJoinedByNvlink) {
  const Paired host;
  auto candidates = idle(8);
  candidates[0].holder = "someone";
  EXPECT_EQ(numbers(select({.count = 2}, candidates, host.topology)), (Numbers{2, 3}))
      << "not 1 and 2, which the bridge joins";
}

TEST(SelectionByLinks, StaysOnOneNumaNode) {
  const Paired host;
  auto candidates = idle(8);
  candidates[2].holder = candidates[3].holder = "someone";
  EXPECT_EQ(numbers(select({.count = 4}, candidates, host.topology)), (Numbers{4, 5, 6, 7}));
}

TEST(SelectionByLinks, LeavesGoodSetsWhole) {
  const Paired host;
  auto candidates = idle(8);
  candidates[4].holder = "someone";
  EXPECT_EQ(numbers(select({.count = 1}, candidates, host.topology)), Numbers{5}) << "its partner is gone already";
}

TEST(SelectionByLinks, DecidesOnlyAmongEquals) {
  const Paired host;
  auto candidates = idle(8);
  for (const int busy : {0, 2, 3, 4, 6, 7}) use(candidates[static_cast<std::size_t>(busy)], gibibytes(20));
  EXPECT_EQ(numbers(select({.count = 2, .least_loaded = true}, candidates, host.topology)), (Numbers{1, 5}));
}

TEST(SelectionByLinks, FindsAWholeIslandAmongManyGpus) {
  const int count = 64;
  std::vector<Gpu> gpus(count);
  std::vector<Link> links;
  std::vector<GpuIndex> gpu_of;
  for (int a = 0; a < count; ++a) {
    gpus[static_cast<std::size_t>(a)].facts.index = static_cast<GpuIndex>(a);
    gpu_of.push_back(static_cast<GpuIndex>(a));
    for (int b = a + 1; b < count && b / 8 == a / 8; ++b)
      links.push_back({static_cast<GpuIndex>(a), static_cast<GpuIndex>(b), LinkKind::nvlink, 18});
  }
  const Topology topology(gpus, links, gpu_of);
  auto candidates = idle(count);
  for (int island = 0; island < 8; ++island)
    if (island != 5) candidates[static_cast<std::size_t>(island * 8)].holder = "someone";
  EXPECT_EQ(numbers(select({.count = 8}, candidates, topology)), (Numbers{40, 41, 42, 43, 44, 45, 46, 47}));
}

}  // namespace
}  // namespace muster::gpu
