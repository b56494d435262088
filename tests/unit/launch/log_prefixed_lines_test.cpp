#include <gtest/gtest.h>

#include "launch/prefixed_lines.hpp"

namespace muster::launch {
namespace {

using namespace std::string_literals;

// Everything that comes out when the parts come in one after the other.
std::string shown(const std::vector<std::string>& parts) {
  PrefixedLines lines("> ", {});
  LineBlock block;
  for (const std::string& part : parts) lines.take(part, block);
  lines.end(block);
  return block.lines;
}

TEST(PrefixedLines, HoldsALineBackUntilItIsWhole) {
  PrefixedLines lines("> ", {});
  LineBlock block;
  lines.take("one\ntw", block);
  EXPECT_EQ(block.lines, "> one\n");
  lines.take("o\nthree", block);
  EXPECT_EQ(block.lines, "> one\n> two\n");
  lines.end(block);
  EXPECT_EQ(block.lines, "> one\n> two\n> three\n");
}

TEST(PrefixedLines, KeepsEmptyLines) {
  EXPECT_EQ(shown({"\n\nx\n"}), "> \n> \n> x\n");
  EXPECT_EQ(shown({""}), "");
  EXPECT_EQ(shown({"x\n", ""}), "> x\n");
}

TEST(PrefixedLines, ShowsEveryStateOfAProgressBar) { EXPECT_EQ(shown({"\r10%\r20%\n"}), "> \n> 10%\n> 20%\n"); }

TEST(PrefixedLines, ShowsAStateAtOnceWhenItsReturnIsWritten) {
  PrefixedLines lines("> ", {});
  LineBlock block;
  lines.take("10%\r", block);
  EXPECT_EQ(block.lines, "> 10%\n");
}

TEST(PrefixedLines, TakesAReturnAndANewlineForOneEndWhereverTheyAreCut) {
  EXPECT_EQ(shown({"a\r\nb\r\n"}), "> a\n> b\n");
  EXPECT_EQ(shown({"a\r", "\nb\r", "\n"}), "> a\n> b\n");
  EXPECT_EQ(shown({"a\r", "", "\nb"}), "> a\n> b\n");
  EXPECT_EQ(shown({"a\r\r\nb\r\n\n"}), "> a\n> \n> b\n> \n");
}

TEST(PrefixedLines, ComeOutTheSameHoweverTheyAreCut) {
  const std::string text = "one\r\n\r\ntwo\rthree\n\nfour\r\r\n\xff\xfe\n" + "nul\0l\n"s + "last";
  const std::string whole = shown({text});
  for (std::size_t first = 0; first <= text.size(); ++first)
    for (std::size_t second = first; second <= text.size(); ++second)
      ASSERT_EQ(shown({text.substr(0, first), text.substr(first, second - first), text.substr(second)}), whole);
}

TEST(PrefixedLines, PassesBytesThatAreNoTextUnchanged) {
  EXPECT_EQ(shown({"\xff\xc3\0\x1b[31m\n"s}), "> \xff\xc3\0\x1b[31m\n"s);
}

TEST(PrefixedLines, CutsALineThatIsTooLongToBeHeldIntoLines) {
  constexpr std::size_t most = PrefixedLines::longest_line;
  EXPECT_EQ(shown({std::string(most, 'x') + "\n"}), "> " + std::string(most, 'x') + "\n");
  EXPECT_EQ(shown({std::string(most, 'x'), "\n"}), "> " + std::string(most, 'x') + "\n");
  const std::string pieces = "> " + std::string(most, 'x') + "\n> " + std::string(most, 'x') + "\n> y\n";
  EXPECT_EQ(shown({std::string(2 * most, 'x') + "y\n"}), pieces);
  EXPECT_EQ(shown({std::string(most / 2, 'x'), std::string(most, 'x'), std::string(most / 2, 'x'), "y"}), pieces);
}

TEST(PrefixedLines, CollectsLinesThatHoldOneOfTheFilters) {
  PrefixedLines lines("> ", {"loss", "accuracy"});
  LineBlock block;
  lines.take("step 1\nloss 0.5\nlo", block);
  lines.take("ss 0.4 accuracy 1\naccu", block);
  lines.end(block);
  EXPECT_EQ(block.matched, "> loss 0.5\n> loss 0.4 accuracy 1\n");
  EXPECT_EQ(block.lines, "> step 1\n> loss 0.5\n> loss 0.4 accuracy 1\n> accu\n");
}

}  // namespace
}  // namespace muster::launch
