#include "base/line_editor.hpp"

#include <gtest/gtest.h>

namespace muster {
namespace {

using Event = LineEditor::Event;

constexpr const char* left = "\033[D";
constexpr const char* right = "\033[C";
constexpr const char* up = "\033[A";
constexpr const char* down = "\033[B";

class LineEditorTest : public ::testing::Test {
 protected:
  void SetUp() override { shown_ = editor_.begin(80); }
  Event type(std::string_view keys) {
    Event event = Event::none;
    for (const char key : keys) event = editor_.take(key, shown_);
    return event;
  }
  // The line that these keys and Enter make.
  std::string line(const std::string& keys) {
    EXPECT_EQ(type(keys + "\r"), Event::line);
    std::string text = editor_.text();
    editor_.begin(80);
    return text;
  }

  LineEditor editor_{"> "};
  std::string shown_;
};

TEST_F(LineEditorTest, ShowsWhatIsTypedAndNothingElse) {
  EXPECT_EQ(type("Grüße, 世界\n"), Event::line);
  EXPECT_EQ(editor_.text(), "Grüße, 世界");
  EXPECT_EQ(shown_, "> Grüße, 世界\n");
}

TEST_F(LineEditorTest, MovesByWholeCharacters) {
  EXPECT_EQ(line(std::string("ab世d") + left + left + "X"), "abX世d");
  EXPECT_EQ(line(std::string("bc") + "\033[Ha" + "\033[Fd"), "abcd");       // Home, End
  EXPECT_EQ(line(std::string("bc") + "\x01" + "a" + "\x05" + "d"), "abcd");  // Ctrl-A, Ctrl-E
  EXPECT_EQ(line(std::string("ac") + "\x02" + "b" + "\x06" + "d"), "abcd");  // Ctrl-B, Ctrl-F
  EXPECT_EQ(line(std::string("ac") + "\033OD" + "b" + "\033[4~" + "d" + "\033[1~" + "_"), "_abcd");
  EXPECT_EQ(line(std::string("a") + right + right + "b"), "ab");
}

TEST_F(LineEditorTest, Deletes) {
  EXPECT_EQ(line("aé\x7f"), "a");
  EXPECT_EQ(line(std::string("abc") + left + "\x7f"), "ac");
  EXPECT_EQ(line(std::string("abc") + "\x01" + "\x04"), "bc");      // Ctrl-D
  EXPECT_EQ(line(std::string("abc") + "\x01" + "\033[3~"), "bc");   // Delete
  EXPECT_EQ(line("one two  \x17three"), "one three");               // Ctrl-W
  EXPECT_EQ(line(std::string("abc") + left + "\x15"), "c");         // Ctrl-U
  EXPECT_EQ(line(std::string("abc") + left + left + "\x0b"), "a");  // Ctrl-K
  EXPECT_EQ(line("\x7f\x17\x15\x0b" "a"), "a");
}

TEST_F(LineEditorTest, GoesThroughWhatWasTypedBeforeAndBackToTheDraft) {
  editor_.remember("first");
  editor_.remember("second");
  editor_.remember("second");
  editor_.remember("");
  EXPECT_EQ(editor_.history(), (std::vector<std::string>{"first", "second"}));
  editor_.begin(80);
  EXPECT_EQ(line(std::string("dra") + up + up + up + down + down + "ft"), "draft");
  EXPECT_EQ(line(std::string(up) + up + "!"), "first!");
  EXPECT_EQ(line("\x10"), "second");       // Ctrl-P
  EXPECT_EQ(line("\x10\x10\x0e"), "second");  // and Ctrl-N
}

TEST_F(LineEditorTest, EndsByItsKeys) {
  EXPECT_EQ(type("\x04"), Event::end);
  editor_.begin(80);
  EXPECT_EQ(type("abc\x03"), Event::interrupt);
  EXPECT_EQ(editor_.text(), "abc");
  editor_.begin(80);
  EXPECT_EQ(line("x"), "x");
}

TEST_F(LineEditorTest, TakesAPasteOfSeveralLinesAsOne) {
  EXPECT_EQ(type("say: \033[200~one\r\ttwo\nthree\x03\033[201~!"), Event::none);
  EXPECT_EQ(type("\r"), Event::line);
  EXPECT_EQ(editor_.text(), "say: one\n\ttwo\nthree!");
  EXPECT_NE(shown_.find("↵"), std::string::npos);
}

TEST_F(LineEditorTest, LeavesOutBytesThatAreNoCharacterAndKeysItDoesNotKnow) {
  EXPECT_EQ(line("a\xff\xc3(\x80z"), "a(z");
  EXPECT_EQ(line("a\033[15~\033[1;5Cb\033xc\x07"), "abc");
}

TEST_F(LineEditorTest, ScrollsWhatIsWiderThanTheTerminalAndLeavesItWhole) {
  editor_.begin(30);
  const std::string text = "0123456789012345678901234567890123456789";
  std::string shown;
  for (const char key : text) editor_.take(key, shown);
  EXPECT_NE(shown.find("\r> "), std::string::npos);  // it was drawn again
  std::string last;
  EXPECT_EQ(editor_.take('\r', last), Event::line);
  EXPECT_EQ(editor_.text(), text);
  EXPECT_EQ(last, "\r> \033[K" + text + "\n");
}

}  // namespace
}  // namespace muster
