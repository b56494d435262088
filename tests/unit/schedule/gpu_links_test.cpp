#include "schedule/gpu_links.hpp"

#include <gtest/gtest.h>

#include "machine.hpp"

namespace muster::schedule {
namespace {

GpuLink link(int a, int b, int worth = 1) { return {GpuNumber{a}, GpuNumber{b}, worth}; }

// Two islands of four, in which all are linked: even and odd numbers.
std::vector<GpuLink> two_islands() {
  std::vector<GpuLink> links;
  for (int a = 0; a < 8; ++a)
    for (int b = a + 2; b < 8; b += 2) links.push_back(link(a, b));
  return links;
}

TEST(GpuLinks, KeepAGangOnOneIsland) {
  Machine machine(8);
  machine.tell(0, GpusLinked{two_islands()});
  machine.submit(1, {job("one"), job("four", 4), job("pair", 2)});
  EXPECT_EQ(machine.gpus("one"), Numbers{0});
  EXPECT_EQ(machine.gpus("four"), (Numbers{1, 3, 5, 7}));
  EXPECT_EQ(machine.gpus("pair"), (Numbers{2, 4}));
}

TEST(GpuLinks, OfMoreWorthGoFirst) {
  Machine machine(4);
  machine.tell(0, GpusLinked{{link(0, 1, 1), link(1, 2, 1), link(3, 1, 5)}});
  machine.submit(1, {job("pair", 2)});
  EXPECT_EQ(machine.gpus("pair"), (Numbers{1, 3}));
}

TEST(GpuLinks, BreakTheFewestOfTheOthers) {
  // A pair that is linked to nobody else goes before one of a square.
  Machine machine(6);
  machine.tell(0, GpusLinked{{link(0, 1), link(1, 2), link(2, 3), link(3, 0), link(4, 5)}});
  machine.submit(1, {job("pair", 2)});
  EXPECT_EQ(machine.gpus("pair"), (Numbers{4, 5}));
}

TEST(GpuLinks, ThatAreToldAnewReplaceTheOld) {
  Machine machine(4);
  machine.tell(0, GpusLinked{{link(0, 3)}});
  machine.tell(1, GpusLinked{{link(1, 2)}});
  machine.submit(2, {job("pair", 2)});
  EXPECT_EQ(machine.gpus("pair"), (Numbers{1, 2}));
  EXPECT_FALSE(machine.scheduler.apply({at(3), GpusLinked{{link(0, 4)}}}));
}

TEST(Heartbeats, CountFromWhenTheyWereGiven) {
  Machine machine(1);
  Job silent = job("silent");
  silent.heartbeat = seconds(10);
  machine.submit(0, {silent});
  machine.tell(9, Heartbeat{{"silent"}, at(4)});
  EXPECT_EQ(machine.scheduler.next_deadline(), at(14));
  machine.tell(10, Heartbeat{{"silent"}, at(2)});  // an older one takes nothing away
  EXPECT_EQ(machine.scheduler.next_deadline(), at(14));
  machine.tell(11, Heartbeat{{"silent"}, at(99)});  // nor is one from the future believed
  EXPECT_EQ(machine.scheduler.next_deadline(), at(21));
}

}  // namespace
}  // namespace muster::schedule
