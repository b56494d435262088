#include "base/table.hpp"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Table, AlignsColumnsByCharactersAndLeavesTheLastUnpadded) {
  EXPECT_EQ(
      format_table({{{"a"}, {"n", Colour::plain, true}, {"x"}}, {{"größer"}, {"100", Colour::plain, true}, {"yy"}}},
                   false),
      "a         n  x\ngrößer  100  yy\n");
}

TEST(Table, DropsBlanksAtTheEndOfALine) {
  EXPECT_EQ(format_table({{{"a"}, {""}}, {{"b"}, {"c"}}}, false), "a\nb  c\n");
}

TEST(Table, PaintsOnlyWhereColourIsWanted) {
  EXPECT_EQ(paint(Colour::red, "no", true), "\033[31mno\033[0m");
  EXPECT_EQ(paint(Colour::red, "no", false), "no");
  EXPECT_EQ(paint(Colour::plain, "no", true), "no");
}

TEST(Table, AlignsPaintedCellsAsIfTheyWereNot) {
  EXPECT_EQ(format_table({{{"a", Colour::bold}, {"b"}}, {{"ccc"}, {"d"}}}, true), "\033[1ma\033[0m    b\nccc  d\n");
}

}  // namespace
}  // namespace muster
