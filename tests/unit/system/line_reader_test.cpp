#include "system/line_reader.hpp"

#include <gtest/gtest.h>

#include <string_view>

#include "testing/pipe.hpp"

namespace muster {
namespace {

class LineReaderTest : public ::testing::Test {
 protected:
  void write(std::string_view text) { pipe_.write(text); }
  void close() { pipe_.close(); }
  LineReader reader(std::size_t longest = 1000) { return {pipe_.reading(), "input", longest}; }
  static std::string told(const Result<NextLine>& next) {
    if (!next) return "error: " + next.error().what;
    if (const auto* line = std::get_if<std::string>(&*next)) return "line: " + *line;
    return std::holds_alternative<NoLineYet>(*next) ? "not yet" : "end";
  }

  testing::Pipe pipe_;
};

TEST_F(LineReaderTest, GivesLinesAsTheyBecomeWholeAndNeverWaits) {
  LineReader lines = reader();
  EXPECT_EQ(told(lines.next()), "not yet");
  write("fir");
  EXPECT_EQ(told(lines.next()), "not yet");
  write("st\n\nthird\r\nfou");
  EXPECT_EQ(told(lines.next()), "line: first");
  EXPECT_TRUE(lines.ready());
  EXPECT_EQ(told(lines.next()), "line: ");
  EXPECT_EQ(told(lines.next()), "line: third");
  EXPECT_FALSE(lines.ready());
  EXPECT_EQ(told(lines.next()), "not yet");
  EXPECT_EQ(lines.count(), 3u);
}

TEST_F(LineReaderTest, TheLastLineNeedsNoNewline) {
  LineReader lines = reader();
  write("a\nb");
  close();
  EXPECT_EQ(told(lines.next()), "line: a");
  EXPECT_EQ(told(lines.next()), "line: b");
  EXPECT_EQ(told(lines.next()), "end");
  EXPECT_TRUE(lines.ready());
  EXPECT_EQ(told(lines.next()), "end");
}

TEST_F(LineReaderTest, GivesLinesThatAreLongerThanOneReadWhole) {
  LineReader lines = reader(500000);
  std::string expected;
  for (int part = 0; part < 5; ++part) {
    const std::string text(50000, static_cast<char>('a' + part));
    write(text);
    expected += text;
    EXPECT_EQ(told(lines.next()), "not yet");
  }
  write("\nnext\n");
  EXPECT_EQ(told(lines.next()), "line: " + expected);
  EXPECT_EQ(told(lines.next()), "line: next");
}

TEST_F(LineReaderTest, RefusesALineWithoutEndByItsNumber) {
  LineReader lines = reader(10);
  write("short\n01234567890");
  EXPECT_EQ(told(lines.next()), "line: short");
  EXPECT_EQ(told(lines.next()), "error: input:2: the line is longer than 10 bytes");
  EXPECT_EQ(told(lines.next()), "end");
}

}  // namespace
}  // namespace muster
