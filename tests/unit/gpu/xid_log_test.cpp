#include "gpu/xid_log.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "testing/scratch_folder.hpp"

namespace muster::gpu {
namespace {

constexpr PciAddress card{0, 0x3b, 0};

TEST(XidLine, IsReadInEveryFormThatDriversWrite) {
  const XidRecord expected{card, 79};
  for (const std::string_view line :
       {"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "4,1382,7215483021,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "[ 7215.483021] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "NVRM: Xid (0000:3B:00): 79, GPU has fallen off the bus.", "NVRM: Xid (PCI:0000:3b:00.0): 79",
        "4,1382,7215483021,c;NVRM: Xid (PCI:0000:3b:00): 79"})
    EXPECT_EQ(parse_xid_line(line), expected) << line;
  EXPECT_EQ(parse_xid_line("NVRM: Xid (PCI:000a:e1:1f): 119, Timeout"), (XidRecord{{0xa, 0xe1, 0x1f}, 119}));
}

TEST(XidLine, IsNothingElse) {
  for (const std::string_view line :
       {"", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module", "NVRM: Xid (PCI:0000:3b:00)", "NVRM: Xid (PCI:zz): 79,",
        "NVRM: Xid (PCI:0000:3b:00): many,", "NVRM: Xid (PCI:0000:3b:00): -1,",
        "6,1,1,-;usb 1-1: Product: NVRM: Xid (PCI:0000:3b:00): 79,", " NVRM: Xid (PCI:0000:3b:00): 79,"})
    EXPECT_EQ(parse_xid_line(line), std::nullopt) << line;
}

TEST(XidLog, KeepsTheOrderAndTellsGpusApart) {
  const testing::ScratchFolder scratch;
  XidLog log(scratch.write("kmsg",
                           "4,1,1,-;NVRM: Xid (PCI:0000:3b:00): 31, a\n SUBSYSTEM=pci\n"
                           "4,2,2,-;NVRM: Xid (PCI:0000:5e:00): 48, b\n"
                           "4,3,3,-;NVRM: Xid (PCI:0000:3b:00): 79, c\n"));
  EXPECT_TRUE(log.codes_for(card).empty());
  log.refresh();
  EXPECT_EQ(log.codes_for(card), (std::vector{31, 79}));
  EXPECT_EQ(log.codes_for({0, 0x5e, 0}), std::vector{48});
  EXPECT_TRUE(log.codes_for({0, 0x60, 0}).empty());
}

TEST(XidLog, ReadsOnlyWhatIsNewAndWaitsForTheEndOfALine) {
  const testing::ScratchFolder scratch;
  const auto file = scratch.write("kmsg", "NVRM: Xid (PCI:0000:3b:00): 31, a\nNVRM: Xid (PCI:0000:3b:0");
  XidLog log(file);
  log.refresh();
  EXPECT_EQ(log.codes_for(card), std::vector{31});
  std::ofstream(file, std::ios::app) << "0): 79, b\n";
  log.refresh();
  log.refresh();
  EXPECT_EQ(log.codes_for(card), (std::vector{31, 79}));
}

TEST(XidLog, ReadsLogsThatAreLongerThanOneBlock) {
  const testing::ScratchFolder scratch;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "6,1,1,-;something else that the kernel had to say\n";
  text += "4,2,2,-;NVRM: Xid (PCI:0000:3b:00): 79, x\n";
  XidLog log(scratch.write("kmsg", text));
  log.refresh();
  EXPECT_EQ(log.codes_for(card), std::vector{79});
}

TEST(XidLog, HoldsNothingWhereThereIsNoLog) {
  XidLog log("/nowhere/kmsg");
  log.refresh();
  EXPECT_TRUE(log.codes_for(card).empty());
}

TEST(XidLog, DoesNotWaitForALogThatHasNothingToSay) {
  const testing::ScratchFolder scratch;
  const auto pipe = scratch.path() / "kmsg";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  XidLog log(pipe);
  log.refresh();
  EXPECT_TRUE(log.codes_for(card).empty());
}

}  // namespace
}  // namespace muster::gpu
