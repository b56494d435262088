#include "base/one_line.hpp"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(OneLine, ShowsControlCharactersInsteadOfObeyingThem) {
  EXPECT_EQ(on_one_line("a\nb\tc\x1b[31m\r\x7f\xc2\x9b!", 100), "a\\nb\\tc\\x1b[31m\\x0d\\x7f\\x9b!");
}

TEST(OneLine, CutsBetweenCharactersAndNotWithinThem) {
  EXPECT_EQ(on_one_line("äöü", 3), "äöü");
  EXPECT_EQ(on_one_line("äöü!", 3), "äöü…");
  EXPECT_EQ(on_one_line("", 0), "");
}

}  // namespace
}  // namespace muster
