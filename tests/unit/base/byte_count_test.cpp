#include "base/byte_count.hpp"

#include <gtest/gtest.h>

namespace muster {
namespace {

std::int64_t parsed(std::string_view text) {
  const auto bytes = parse_byte_count(text);
  EXPECT_TRUE(bytes) << text << ": " << (bytes ? "" : bytes.error().what);
  return bytes ? bytes->value : -1;
}

TEST(ByteCount, TellsBinaryAndDecimalUnitsApart) {
  EXPECT_EQ(parsed("20GiB"), 20LL << 30);
  EXPECT_EQ(parsed("20GB"), 20'000'000'000LL);
  EXPECT_EQ(parsed("512MiB"), 512LL << 20);
  EXPECT_EQ(parsed("512MB"), 512'000'000LL);
  EXPECT_EQ(parsed("1TiB"), 1LL << 40);
}

TEST(ByteCount, ReadsFractionsBlanksAndBareBytes) {
  EXPECT_EQ(parsed("1.5GiB"), 3LL << 29);
  EXPECT_EQ(parsed(" 20 GiB "), 20LL << 30);
  EXPECT_EQ(parsed("4096"), 4096);
  EXPECT_EQ(parsed("20gib"), 20LL << 30);
}

TEST(ByteCount, RefusesBitsAndSaysHowBytesAreWritten) {
  const auto bits = parse_byte_count("10Gb");
  ASSERT_FALSE(bits);
  EXPECT_NE(bits.error().remedy.find("10GB"), std::string::npos) << bits.error().remedy;
}

TEST(ByteCount, RefusesWhatIsNoSize) {
  for (const char* text : {"", "GiB", "20G", "20 apples", "-5GiB", "1e3", "1..5GiB", "99999999999TiB", "nan", "0x10"})
    EXPECT_FALSE(parse_byte_count(text)) << text;
}

TEST(ByteCount, PrintsForPeople) {
  EXPECT_EQ(to_string(gibibytes(40)), "40.0 GiB");
  EXPECT_EQ(to_string(gibibytes(140)), "140 GiB");
  EXPECT_EQ(to_string(mebibytes(512)), "512 MiB");
  EXPECT_EQ(to_string(ByteCount{17}), "17 B");
  EXPECT_EQ(to_string(ByteCount{}), "0 B");
}

}  // namespace
}  // namespace muster
