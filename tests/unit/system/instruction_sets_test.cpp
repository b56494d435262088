#include "system/instruction_sets.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>

#include "system/files.hpp"
#include "base/text.hpp"

namespace muster {
namespace {

using Outcome = InstructionSetOutcome;

bool yes() { return true; }
bool no() { return false; }

ProbeAnswer survive() { return ProbeAnswer::done; }
ProbeAnswer refuse() { return ProbeAnswer::not_permitted; }
ProbeAnswer raise_illegal_instruction() {
  ::raise(SIGILL);
  return ProbeAnswer::done;
}
ProbeAnswer hang() {
  while (true) ::pause();
}

InstructionSetReport try_one(InstructionSet set, std::chrono::milliseconds limit = std::chrono::milliseconds(30000)) {
  const auto reports = try_instruction_sets({&set, 1}, limit);
  EXPECT_EQ(reports.size(), 1U);
  return reports.front();
}

TEST(InstructionSets, OneThatSurvivesWorks) {
  EXPECT_EQ(try_one({"amx_tile", yes, survive}), (InstructionSetReport{"amx_tile", Outcome::works, std::nullopt}));
}

TEST(InstructionSets, OneThatRaisesSigillTrapsAndTheParentLives) {
  EXPECT_EQ(try_one({"amx_tile", yes, raise_illegal_instruction}),
            (InstructionSetReport{"amx_tile", Outcome::traps, SIGILL}));
}

#if defined(__x86_64__)
TEST(InstructionSets, AnInstructionThatNoCpuHasTraps) {
  const auto undefined = [] {
    asm volatile("ud2");
    return ProbeAnswer::done;
  };
  EXPECT_EQ(try_one({"none", yes, undefined}), (InstructionSetReport{"none", Outcome::traps, SIGILL}));
}
#endif

TEST(InstructionSets, OneThatIsNotAnnouncedIsNotTried) {
  EXPECT_EQ(try_one({"amx_tile", no, raise_illegal_instruction}),
            (InstructionSetReport{"amx_tile", Outcome::absent, std::nullopt}));
}

TEST(InstructionSets, OneThatTheKernelRefusesIsNotPermitted) {
  EXPECT_EQ(try_one({"amx_tile", yes, refuse}).outcome, Outcome::not_permitted);
}

TEST(InstructionSets, OneThatHangsIsKilledAndTraps) {
  EXPECT_EQ(try_one({"amx_tile", yes, hang}, std::chrono::milliseconds(50)),
            (InstructionSetReport{"amx_tile", Outcome::traps, std::nullopt}));
}

TEST(InstructionSets, OneThatTrapsDoesNotHideTheNext) {
  const std::array sets{InstructionSet{"avx512_bf16", yes, raise_illegal_instruction},
                        InstructionSet{"amx_tile", yes, survive}};
  const auto reports = try_instruction_sets(sets);
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].outcome, Outcome::traps);
  EXPECT_EQ(reports[1].outcome, Outcome::works);
}

// The kernel lists a set only when the CPU announces it and the kernel enabled it: the same question, asked elsewhere.
TEST(InstructionSets, AreAnnouncedAsTheKernelLists) {
  const auto text = read_file("/proc/cpuinfo");
  ASSERT_TRUE(text);
  const auto begin = text->find("\nflags");
  if (begin == std::string::npos) {
    EXPECT_TRUE(known_instruction_sets().empty());
    return;
  }
  const std::string flags = text->substr(begin + 1, text->find('\n', begin + 1) - begin - 1) + " ";
  for (const InstructionSet& set : known_instruction_sets())
    EXPECT_EQ(set.announced(), flags.find(fmt::format(" {} ", set.name)) != std::string::npos) << set.name;
}

TEST(InstructionSets, OfThisMachineAreTriedWithoutHarm) {
  const auto reports = try_instruction_sets();
  ASSERT_EQ(reports.size(), known_instruction_sets().size());
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const InstructionSet& set = known_instruction_sets()[i];
    EXPECT_EQ(reports[i].name, set.name);
    EXPECT_EQ(reports[i].outcome != Outcome::absent, set.announced()) << set.name;
    EXPECT_NE(reports[i].outcome, Outcome::not_known) << set.name;
  }
}

InstructionSetReport report(std::string name, Outcome outcome) { return {std::move(name), outcome, std::nullopt}; }

TEST(OnednnCap, IsNotNeededWhenNothingTraps) {
  const std::array reports{report("avx512_bf16", Outcome::works), report("amx_tile", Outcome::absent),
                           report("amx_bf16", Outcome::not_permitted)};
  EXPECT_EQ(onednn_cap(reports), std::nullopt);
}

TEST(OnednnCap, KeepsBf16VectorsWhenTilesTrap) {
  const std::array reports{report("avx512_bf16", Outcome::works), report("amx_tile", Outcome::traps),
                           report("amx_bf16", Outcome::traps)};
  EXPECT_EQ(onednn_cap(reports), "AVX512_CORE_BF16");
}

TEST(OnednnCap, FollowsTheLowestSetThatTraps) {
  std::array reports{report("avx2", Outcome::works), report("avx512f", Outcome::works),
                     report("avx512_bf16", Outcome::traps), report("amx_tile", Outcome::traps)};
  EXPECT_EQ(onednn_cap(reports), "AVX512_CORE");
  reports[1].outcome = Outcome::traps;
  EXPECT_EQ(onednn_cap(reports), "AVX2");
  reports[0].outcome = Outcome::traps;
  EXPECT_EQ(onednn_cap(reports), "SSE41");
}

TEST(OnednnCap, LeavesALowerSettingOfTheUserAndLowersAHigherOne) {
  const std::array reports{report("amx_tile", Outcome::traps)};
  EXPECT_EQ(onednn_cap(reports, "AVX2"), std::nullopt);
  EXPECT_EQ(onednn_cap(reports, "avx512_core_bf16"), std::nullopt);
  EXPECT_EQ(onednn_cap(reports, "AVX512_CORE_AMX"), "AVX512_CORE_BF16");
  EXPECT_EQ(onednn_cap(reports, "DEFAULT"), "AVX512_CORE_BF16");
  EXPECT_EQ(onednn_cap(reports, ""), "AVX512_CORE_BF16");
}

}  // namespace
}  // namespace muster
