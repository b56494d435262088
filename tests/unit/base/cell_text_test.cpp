#include "base/cell_text.hpp"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(CellText, KnowsWideAndCombiningCharacters) {
  EXPECT_EQ(cell_width("abc"), 3U);
  EXPECT_EQ(cell_width("größe"), 5U);
  EXPECT_EQ(cell_width("進捗"), 4U);
  EXPECT_EQ(cell_width("e\u0301"), 1U);
  EXPECT_EQ(cell_width("█░…"), 3U);
  EXPECT_EQ(cell_width("\xff"), 1U);
}

TEST(CellText, CutsBetweenCharacters) {
  EXPECT_EQ(cut_to_cells("abcdef", 6), "abcdef");
  EXPECT_EQ(cut_to_cells("abcdef", 4), "abc…");
  EXPECT_EQ(cut_to_cells("abcdef", 4, "~"), "abc~");
  EXPECT_EQ(cut_to_cells("abcdef", 0), "");
  EXPECT_EQ(cut_to_cells("進捗進捗", 5), "進捗…");
  EXPECT_EQ(cut_to_cells("進捗進捗", 4), "進…");
}

TEST(CellText, FillsUpToExactlySoManyCells) {
  EXPECT_EQ(fit_to_cells("ab", 4), "ab  ");
  EXPECT_EQ(fit_to_cells("ab", 4, Align::right), "  ab");
  EXPECT_EQ(fit_to_cells("進捗進捗", 4), "進… ");
  for (std::size_t cells = 0; cells < 12; ++cells) EXPECT_EQ(cell_width(fit_to_cells("a進b捗c", cells)), cells);
}

TEST(CellText, ShowsALineAsATerminalWouldHaveLeftIt) {
  EXPECT_EQ(visible_line("10%\r20%\r30%\r\n"), "30%");
  EXPECT_EQ(visible_line("\033[1;31mred\033[0m \033]0;title\a\033]8;;x\033\\link"), "red link");
  EXPECT_EQ(visible_line("a\tb\x01\x7f"), "a  b");
  EXPECT_EQ(visible_line("a\xff\u0085z"), "a\uFFFDz");
  EXPECT_EQ(visible_line("größe", true), "gr??e");
  EXPECT_EQ(visible_line("\033["), "");
}

}  // namespace
}  // namespace muster
