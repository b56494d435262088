#include "lease/printable_text.hpp"

#include <gtest/gtest.h>

namespace muster::lease {
namespace {

TEST(PrintableText, LeavesGoodTextAlone) {
  EXPECT_EQ(printable("train --name größe 🚀", 100), "train --name größe 🚀");
  EXPECT_EQ(printable("", 3), "");
}

TEST(PrintableText, TakesTheSecretsOfATerminalAway) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\x7f\xc2\x9b", 100), "a [2Jb   ");
}

TEST(PrintableText, ShowsCharactersThatTurnTheDirectionOfWritingOrAreNotSeen) {
  for (const char* hidden : {"\u202e", "\u202a", "\u2066", "\u2069", "\u200b", "\u200f", "\u061c", "\ufeff", "\u2028"})
    EXPECT_EQ(printable(std::string("a") + hidden + "b", 10), "a\uFFFDb");
  EXPECT_EQ(printable("naïve – 漢字 עברית", 40), "naïve – 漢字 עברית");
}

TEST(PrintableText, ReplacesBrokenBytes) {
  EXPECT_EQ(printable("\xff", 9), "\uFFFD");
  EXPECT_EQ(printable("a\xe2\x82", 9), "a\uFFFD\uFFFD");                    // cut short
  EXPECT_EQ(printable("\xc0\xaf", 9), "\uFFFD\uFFFD");                      // overlong
  EXPECT_EQ(printable("\xed\xa0\x80", 9), "\uFFFD\uFFFD\uFFFD");            // half of a surrogate pair
  EXPECT_EQ(printable("\xf5\x80\x80\x80", 9), "\uFFFD\uFFFD\uFFFD\uFFFD");  // beyond Unicode
}

TEST(PrintableText, CutsBetweenCharacters) {
  EXPECT_EQ(printable("ööö", 3), "ööö");
  EXPECT_EQ(printable("öööö", 3), "öö…");
  EXPECT_EQ(printable("ab", 1), "…");
}

}  // namespace
}  // namespace muster::lease
