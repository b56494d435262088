#include "base/shell_word.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "system/subprocess.hpp"

namespace muster {
namespace {

TEST(ShellWord, StaysAsItIsWhereItNeedsNoQuotes) { EXPECT_EQ(shell_word("a.b=1e-3"), "a.b=1e-3"); }

TEST(ShellWord, IsReadBackByAShell) {
  for (const char* word : {"", "it's", "a b", "$HOME", "`x`", "\\", "*", "\"", "line\nline", "é"}) {
    const auto echoed =
        run_process({"sh", "-c", std::string("printf %s ") + shell_word(word)}, {}, std::chrono::seconds(10));
    ASSERT_TRUE(echoed);
    EXPECT_EQ(echoed->output, word);
  }
}

}  // namespace
}  // namespace muster
