#include "base/checksum.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace muster {
namespace {

std::uint64_t of(const std::string& text, std::uint64_t seed = 0) {
  return checksum(std::as_bytes(std::span(text)), seed);
}

TEST(Checksum, ChangesWithEveryBitLengthAndSeed) {
  for (const std::size_t length : {1u, 7u, 8u, 31u, 32u, 33u, 100u}) {
    const std::string text(length, 'a');
    std::set<std::uint64_t> seen{of(text), of(text, 1), of(text + 'a'), of(text + '\0')};
    for (std::size_t bit = 0; bit < 8 * length; ++bit) {
      std::string changed = text;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
      seen.insert(of(changed));
    }
    EXPECT_EQ(seen.size(), 4 + 8 * length);
  }
}

TEST(Checksum, TellsTheOrderOfBlocks) {
  const std::string one(32, 'a'), other(32, 'b');
  EXPECT_NE(of(one + other), of(other + one));
}

}  // namespace
}  // namespace muster
