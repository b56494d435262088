#include "job/train/prompt_to_try.hpp"

#include <gtest/gtest.h>

#include "system/files.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::job {
namespace {

class PromptToTry : public ::testing::Test {
 protected:
  std::string of(std::string_view name, std::string_view text) const {
    EXPECT_TRUE(write_file_atomically(scratch_.path() / name, text));
    return prompt_to_try(scratch_.path() / name);
  }
  const testing::ScratchFolder scratch_;
};

TEST_F(PromptToTry, IsThePromptOfTheFirstRow) {
  EXPECT_EQ(of("a.jsonl", "\n{\"prompt\": \"Q: 3*4=\", \"completion\": \"12\"}\n{\"prompt\": \"x\"}\n"), "Q: 3*4=");
  EXPECT_EQ(of("b.jsonl", R"({"prompt": "two\nlines", "completion": "12"})"), R"({"prompt":"two\nlines"})");
}

TEST_F(PromptToTry, IsAConversationWhereTheDataIsOne) {
  EXPECT_EQ(of("a.jsonl", R"({"messages": [{"role": "system", "content": "Be brief."},
                                           {"role": "user", "content": "Who's there?"},
                                           {"role": "assistant", "content": "I."}]})"
                          "\n"),
            "Once upon a time");  // not one row a line
  EXPECT_EQ(of("b.jsonl",
               R"({"messages": [{"role": "user", "content": "Who's there?"}, {"role": "assistant", "content": "I."}]})"),
            R"({"messages":[{"role":"user","content":"Who's there?"}]})");
}

TEST_F(PromptToTry, IsTheBeginningOfAText) {
  EXPECT_EQ(of("a.txt", "\n  The quick brown fox jumps over the lazy dog.\nAgain.\n"), "The quick brown fox jumps over");
  EXPECT_EQ(of("b.txt", "Short.\nAgain."), "Short.");
  EXPECT_EQ(of("c.jsonl", R"({"text": "In the beginning"})"), "In the beginning");
}

TEST_F(PromptToTry, FitsAnyModelWhereNothingCanBeRead) {
  EXPECT_EQ(prompt_to_try(scratch_.path() / "missing.jsonl"), "Once upon a time");
  EXPECT_EQ(of("a.jsonl", "{"), "Once upon a time");
  EXPECT_EQ(of("a.txt", ""), "Once upon a time");
}

TEST_F(PromptToTry, CutsWhatIsLongAtAWord) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "word ";
  const std::string prompt = of("a.jsonl", R"({"prompt": ")" + text + R"(", "completion": "1"})");
  EXPECT_LE(prompt.size(), 160u);
  EXPECT_TRUE(prompt.ends_with("word"));
}

TEST(Piped, IsReadBackByAShell) {
  EXPECT_EQ(piped("12+34="), "echo 12+34=");
  EXPECT_EQ(piped("Who's there?"), R"(echo 'Who'\''s there?')");
  EXPECT_EQ(piped(R"({"prompt":"a\nb"})"), R"(printf '%s\n' '{"prompt":"a\nb"}')");
  EXPECT_EQ(piped("-n"), R"(printf '%s\n' -n)");
}

}  // namespace
}  // namespace muster::job
