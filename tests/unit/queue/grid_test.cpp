#include "queue/grid.hpp"

#include <gtest/gtest.h>

namespace muster::queue {
namespace {

using Commands = std::vector<std::string>;

Commands expanded(std::string_view line) { return expand_grid(line).value(); }

TEST(Grid, GivesEveryCombinationTheLastChangingFastest) {
  EXPECT_EQ(expanded("run {a,b} {1..3}"), (Commands{"run a 1", "run a 2", "run a 3", "run b 1", "run b 2", "run b 3"}));
}

TEST(Grid, CountsDownAndBelowZero) { EXPECT_EQ(expanded("{1..-1}"), (Commands{"1", "0", "-1"})); }

TEST(Grid, OpensBracesInBraces) { EXPECT_EQ(expanded("{a,b{1,2}}"), (Commands{"a", "b1", "b2"})); }

TEST(Grid, KeepsAnEmptyChoice) { EXPECT_EQ(expanded("train{,_big}.py"), (Commands{"train.py", "train_big.py"})); }

TEST(Grid, LeavesAloneWhatAShellLeavesAlone) {
  for (const char* line : {"echo '{a,b}'", "echo \"{a,b}\"", "echo ${a}", "echo {a}", "echo {}", "awk '{print $1, $2}'",
                           "echo \\{a,b}", "f() { a, b; }", "echo {a", "echo a,b}", "{1..x}"})
    EXPECT_EQ(expanded(line), Commands{line});
}

TEST(Grid, RefusesMoreCommandsThanAnybodyMeans) {
  const auto result = expand_grid("{1..1000} {1..1000}");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, Error::Kind::bad_input);
  EXPECT_FALSE(expand_grid("{0..2000000000}"));
}

}  // namespace
}  // namespace muster::queue
