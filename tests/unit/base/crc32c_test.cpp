#include "base/crc32c.hpp"

#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

// The values of RFC 3720, appendix B.4, and the usual check value.
TEST(Crc32c, GivesThePublishedChecksums) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(Crc32c, GoesOnFromWhatCameBefore) { EXPECT_EQ(crc32c("56789", crc32c("1234")), crc32c("123456789")); }

}  // namespace
}  // namespace muster
