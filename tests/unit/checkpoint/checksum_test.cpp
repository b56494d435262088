#include "checkpoint/checksum.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace muster::checkpoint {
namespace {

std::vector<std::byte> bytes_of(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 131 + i / 7);
  return bytes;
}

TEST(Checksum, IsTheSameHoweverTheBytesAreCut) {
  for (const std::size_t size : {0u, 1u, 63u, 64u, 65u, 128u, 1000u}) {
    const auto bytes = bytes_of(size);
    for (std::size_t cut = 0; cut <= size; cut += 1 + size / 40) {
      Checksum parts;
      parts.add(std::span(bytes).first(cut));
      parts.add(std::span(bytes).subspan(cut));
      EXPECT_EQ(parts.value(), checksum_of(bytes)) << size << " cut at " << cut;
    }
  }
}

TEST(Checksum, ChangesWithEveryBitAndWithZerosAtTheEnd) {
  auto bytes = bytes_of(200);
  const std::uint64_t whole = checksum_of(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1 << bit % 8);
    bytes[bit / 8] ^= mask;
    EXPECT_NE(checksum_of(bytes), whole) << "bit " << bit;
    bytes[bit / 8] ^= mask;
  }
  const std::vector<std::byte> zeros(130);
  for (std::size_t size = 1; size < zeros.size(); ++size)
    EXPECT_NE(checksum_of(std::span(zeros).first(size)), checksum_of(std::span(zeros).first(size - 1)));
}

TEST(Checksum, ChangesWhenPartsChangePlaces) {
  const auto bytes = bytes_of(512);
  for (std::size_t i = 0; i < 8; ++i)
    for (std::size_t k = 0; k < i; ++k) {
      auto other = bytes;
      std::swap_ranges(other.begin() + static_cast<std::ptrdiff_t>(i * 64),
                       other.begin() + static_cast<std::ptrdiff_t>(i * 64 + 64),
                       other.begin() + static_cast<std::ptrdiff_t>(k * 64));
      EXPECT_NE(checksum_of(other), checksum_of(bytes)) << i << " and " << k;
    }
}

TEST(Checksum, IsSpeltInSixteenDigitsAndNoOtherWay) {
  EXPECT_EQ(checksum_text(0xab), "00000000000000ab");
  EXPECT_EQ(parse_checksum("00000000000000ab"), 0xabu);
  for (const char* text : {"", "ab", "00000000000000AB", "0x000000000000ab", "00000000000000abc", " 0000000000000ab"})
    EXPECT_FALSE(parse_checksum(text)) << text;
}

}  // namespace
}  // namespace muster::checkpoint
