#include "base/clean_text.hpp"

#include <gtest/gtest.h>

#include <random>

#include "base/character.hpp"
#include "base/one_line.hpp"
#include "base/text.hpp"

namespace muster {
namespace {

TEST(CleanText, ShowsControlCharactersInsteadOfObeyingThem) {
  EXPECT_EQ(printable_lines("a\x1b]0;owned\x07 b\r\x7f"), "a\\x1b]0;owned\\x07 b\\x0d\\x7f");
  EXPECT_EQ(printable_lines("\xc2\x9b[2J"), "\\x9b[2J");       // U+009B, which is ESC [ to some terminals
  EXPECT_EQ(printable_lines("\x9b[2J"), "\\x9b[2J");           // the same as a lone byte
  EXPECT_EQ(printable_lines("\u202Etxt.exe"), "\\u202etxt.exe");  // writes from right to left
}

TEST(CleanText, LeavesTablesAndWordsAlone) {
  const std::string table = "GPU\tname\n0\tNäme → 日本語 🙂\n";
  EXPECT_EQ(printable_lines(table), table);
}

TEST(CleanText, KeepsColoursOnlyWhereItIsAskedTo) {
  EXPECT_EQ(printable_lines_with_colours("\033[1;31mred\033[0m\033[2J"), "\033[1;31mred\033[0m\\x1b[2J");
  EXPECT_EQ(printable_lines("\033[31mred"), "\\x1b[31mred");
}

TEST(CleanText, EscapesSoThatAReaderOfJsonHasTheSameTextAgain) {
  EXPECT_EQ(escaped_lines("{\"a\": \"\u009b\u202e\x7f ü\"}\n"), "{\"a\": \"\\u009b\\u202e\\u007f ü\"}\n");
  EXPECT_EQ(escaped_lines("a\xff"), "a\\ufffd");
}

// Whatever the bytes are, nothing is left that a terminal would act upon, and the text is UTF-8.
TEST(CleanText, NoTextComesThroughThatOrdersATerminal) {
  std::mt19937_64 random(7);
  const std::string pieces[] = {"\x1b", "[",  "31m",      "\xc2", "\x9b",             "\x85", "\n",
                                "\t",   "\r", "a",        "\xae", "\xf0\x9f\x99\x82", "\xff", std::string(1, '\0'),
                                "\xe2\x80"};
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (std::size_t i = random() % 12; i > 0; --i)
      text += random() % 3 == 0 ? std::string(1, static_cast<char>(random())) : pieces[random() % std::size(pieces)];
    for (const std::string& safe : {printable_lines(text), escaped_lines(text), on_one_line(text, 100)}) {
      EXPECT_TRUE(is_utf8(safe));
      for (std::string_view rest = safe; !rest.empty();) {
        const Character next = first_character(rest);
        EXPECT_TRUE(!orders_the_terminal(next) || next.code == U'\n' || next.code == U'\t');
        rest.remove_prefix(next.bytes);
      }
    }
  }
}

}  // namespace
}  // namespace muster
