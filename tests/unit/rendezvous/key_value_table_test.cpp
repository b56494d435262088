#include "rendezvous/key_value_table.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace muster::rendezvous {
namespace {

struct KeyValueTableTest : ::testing::Test {
  ByteBudget budget{100'000};
  KeyValueTable table{budget};
};

TEST_F(KeyValueTableTest, HoldsTheLastValueSet) {
  EXPECT_EQ(table.get("a"), std::nullopt);
  EXPECT_TRUE(table.set("a", "1"));
  EXPECT_TRUE(table.set("a", std::string("2\0x", 3)));
  EXPECT_EQ(table.get("a"), std::string_view("2\0x", 3));
  EXPECT_EQ(table.size(), 1U);
}

TEST_F(KeyValueTableTest, AppendsToWhatIsThereAndBeginsWithNothing) {
  EXPECT_TRUE(table.append("a", "one"));
  EXPECT_TRUE(table.append("a", "two"));
  EXPECT_EQ(table.get("a"), "onetwo");
}

TEST_F(KeyValueTableTest, CountsInDecimal) {
  EXPECT_EQ(table.add("n", 5), 5);
  EXPECT_EQ(table.add("n", -7), -2);
  EXPECT_EQ(table.get("n"), "-2");
}

TEST_F(KeyValueTableTest, ReadsACounterAsTheCLibraryDoes) {
  const std::pair<std::string, std::int64_t> readable[] = {
      {" \t12", 13}, {"+5", 6}, {"-3x", -2}, {"7.9", 8}, {"007", 8}};
  for (const auto& [value, sum] : readable) {
    ASSERT_TRUE(table.set("n", value));
    EXPECT_EQ(table.add("n", 1), sum) << value;
  }
  for (const std::string value : {"", "x1", "+-1", "-", "- 1", "99999999999999999999"}) {
    ASSERT_TRUE(table.set("n", value));
    EXPECT_EQ(table.add("n", 1), std::nullopt) << value;
    EXPECT_EQ(table.get("n"), value);
  }
}

TEST_F(KeyValueTableTest, RefusesASumThatDoesNotFitIn64Bits) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(table.add("n", most), most);
  EXPECT_EQ(table.add("n", 1), std::nullopt);
  EXPECT_EQ(table.get("n"), std::to_string(most));
}

TEST_F(KeyValueTableTest, ComparesBeforeItSets) {
  EXPECT_EQ(table.compare_set("a", "expected", "new"), "expected");
  EXPECT_EQ(table.get("a"), std::nullopt);
  EXPECT_EQ(table.compare_set("a", "", "one"), "one");
  EXPECT_EQ(table.compare_set("a", "other", "two"), "one");
  EXPECT_EQ(table.compare_set("a", "one", "two"), "two");
  EXPECT_EQ(table.get("a"), "two");
}

TEST_F(KeyValueTableTest, TellsWhetherThereWasAKeyToErase) {
  EXPECT_TRUE(table.set("a", "1"));
  EXPECT_TRUE(table.erase("a"));
  EXPECT_FALSE(table.erase("a"));
  EXPECT_EQ(table.size(), 0U);
}

TEST_F(KeyValueTableTest, PopsInTheOrderOfPushing) {
  EXPECT_TRUE(table.push("q", "1"));
  EXPECT_TRUE(table.push("q", "2"));
  EXPECT_EQ(table.queue_length("q"), 2U);
  EXPECT_EQ(table.pop("q"), "1");
  EXPECT_EQ(table.pop("q"), "2");
  EXPECT_EQ(table.pop("q"), std::nullopt);
}

TEST_F(KeyValueTableTest, KeepsAQueueApartFromTheValueOfTheSameName) {
  EXPECT_TRUE(table.push("a", "queued"));
  EXPECT_TRUE(table.has("a"));
  EXPECT_EQ(table.get("a"), std::nullopt);
  EXPECT_EQ(table.size(), 0U);
  EXPECT_FALSE(table.erase("a"));
  EXPECT_EQ(table.pop("a"), "queued");
  EXPECT_FALSE(table.has("a"));
}

TEST_F(KeyValueTableTest, HoldsNothingOfTheBudgetOnceEverythingIsGone) {
  EXPECT_TRUE(table.set("a", std::string(1000, 'x')));
  EXPECT_TRUE(table.set("a", "short"));
  EXPECT_TRUE(table.append("a", "longer"));
  EXPECT_TRUE(table.push("q", "one"));
  EXPECT_GT(budget.used(), 0U);
  EXPECT_TRUE(table.erase("a"));
  EXPECT_EQ(table.pop("q"), "one");
  EXPECT_EQ(budget.used(), 0U);
  EXPECT_TRUE(table.set("b", "2"));
  EXPECT_TRUE(table.push("q", "two"));
  table.clear();
  EXPECT_EQ(budget.used(), 0U);
}

TEST_F(KeyValueTableTest, ChangesNothingWhenTheBudgetIsSpent) {
  EXPECT_TRUE(table.set("a", "1"));
  const std::string too_long(200'000, 'x');
  const auto before = budget.used();
  EXPECT_FALSE(table.set("a", too_long));
  EXPECT_FALSE(table.set("b", too_long));
  EXPECT_FALSE(table.append("a", too_long));
  EXPECT_FALSE(table.push("q", too_long));
  EXPECT_EQ(table.compare_set("a", "1", too_long), std::nullopt);
  EXPECT_EQ(table.get("a"), "1");
  EXPECT_EQ(table.size(), 1U);
  EXPECT_EQ(table.queue_length("q"), 0U);
  EXPECT_EQ(budget.used(), before);
}

TEST_F(KeyValueTableTest, CountsAnEmptyValueToo) {
  std::size_t count = 0;
  while (table.set(std::to_string(count), "")) ++count;
  EXPECT_LE(count, 100'000 / entry_overhead);
}

}  // namespace
}  // namespace muster::rendezvous
