#include "job/generate/ordered_results.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace muster::job {
namespace {

TEST(OrderedResults, ComeOutInTheOrderOfTheirIndexWhateverTheOrderTheyCameIn) {
  std::mt19937 chance(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<int> order(40);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, chance);
    OrderedResults results;
    std::string written, expected;
    for (const int index : order) {
      ASSERT_TRUE(results.add(index, std::to_string(index) + "\n"));
      written += results.take();
    }
    for (int index = 0; index < 40; ++index) expected += std::to_string(index) + "\n";
    EXPECT_EQ(written, expected);
    EXPECT_EQ(results.held_bytes(), 0u);
  }
}

TEST(OrderedResults, HoldWhatWaitsForAnEarlierOneAndCountItsBytes) {
  OrderedResults results;
  EXPECT_TRUE(results.add(1, "one\n"));
  EXPECT_TRUE(results.add(2, "two\n"));
  EXPECT_EQ(results.take(), "");
  EXPECT_EQ(results.held_bytes(), 8u + 2 * OrderedResults::entry_bytes);
  EXPECT_TRUE(results.add(0, "zero\n"));
  EXPECT_EQ(results.take(), "zero\none\ntwo\n");
  EXPECT_EQ(results.held_bytes(), 0u);
  EXPECT_EQ(results.next(), 3);
}

TEST(OrderedResults, CountEachIndexOnce) {
  OrderedResults results;
  EXPECT_TRUE(results.add(0, "a\n"));
  EXPECT_EQ(results.take(), "a\n");
  EXPECT_FALSE(results.add(0, "again\n"));
  EXPECT_TRUE(results.add(2, "c\n"));
  EXPECT_FALSE(results.add(2, "again\n"));
  EXPECT_EQ(results.held_bytes(), 2u + OrderedResults::entry_bytes);
}

}  // namespace
}  // namespace muster::job
