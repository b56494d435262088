#include <fcntl.h>
#include <gtest/gtest.h>

#include "launch/error_tail.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::launch {
namespace {

using Lines = std::vector<std::string>;

// The same rules hold for what was remembered and for what stands in a file.
class ErrorTailTest : public ::testing::TestWithParam<bool> {
 protected:
  Lines lines_of(const std::string& text, std::size_t count) {
    ErrorTail tail;
    if (GetParam()) {
      tail.read_from(FileDescriptor(::open(scratch_.write("errors", text).c_str(), O_RDONLY | O_CLOEXEC)));
    } else {
      for (std::size_t at = 0; at < text.size(); at += 1000) tail.remember(std::string_view(text).substr(at, 1000));
    }
    return tail.lines(count);
  }
  const testing::ScratchFolder scratch_;
};

TEST_P(ErrorTailTest, HasNoLinesWhenNothingWasSaid) {
  EXPECT_EQ(lines_of("", 5), Lines{});
  EXPECT_EQ(lines_of("\n \n\n", 5), Lines{});
}

TEST_P(ErrorTailTest, EndsWithTheLastLineWhetherItIsEndedOrNot) {
  EXPECT_EQ(lines_of("one\ntwo\nthree\n", 2), (Lines{"two", "three"}));
  EXPECT_EQ(lines_of("one\ntwo\nthree", 2), (Lines{"two", "three"}));
  EXPECT_EQ(lines_of("one\n\ntwo\n\n\n", 9), (Lines{"one", "", "two"}));
}

TEST_P(ErrorTailTest, ShowsTheLastStateOfAProgressBar) {
  EXPECT_EQ(lines_of("\r10%\r20%\r100%\r\nerror\r\n", 9), (Lines{"100%", "error"}));
}

TEST_P(ErrorTailTest, KeepsABoundedEndAndNoLineWithoutItsBeginning) {
  std::string text;
  for (int line = 0; text.size() < 40 * ErrorTail::kept_bytes; ++line) text += "line " + std::to_string(line) + "\n";
  const Lines lines = lines_of(text, 1'000'000);
  std::size_t bytes = 0;
  for (const std::string& line : lines) {
    EXPECT_TRUE(line.starts_with("line ")) << line;
    bytes += line.size() + 1;
  }
  EXPECT_LE(bytes, ErrorTail::kept_bytes);
  EXPECT_GT(bytes, ErrorTail::kept_bytes - 100);
  EXPECT_TRUE(text.ends_with(lines.back() + "\n"));
}

TEST_P(ErrorTailTest, KeepsTheEndOfALineThatIsLongerThanAllItKeeps) {
  const Lines lines = lines_of(std::string(3 * ErrorTail::kept_bytes, 'x') + "end", 5);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].size(), ErrorTail::kept_bytes);
  EXPECT_TRUE(lines[0].ends_with("xend"));
}

INSTANTIATE_TEST_SUITE_P(Sources, ErrorTailTest, ::testing::Values(false, true),
                         [](const auto& which) { return which.param ? "File" : "Memory"; });

}  // namespace
}  // namespace muster::launch
