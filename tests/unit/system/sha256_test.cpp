#include "system/sha256.hpp"

#include <gtest/gtest.h>

#include "testing/scratch_folder.hpp"

namespace muster {
namespace {

std::string digest(std::string_view text) {
  Sha256 sha;
  sha.add(std::as_bytes(std::span(text)));
  return sha.finish();
}

// FIPS 180-4's own examples, and the lengths around a block's end.
TEST(Sha256, GivesTheStandardsDigests) {
  EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheBytesAreCut) {
  const std::string text(1000, 'x');
  for (const std::size_t part : {1u, 55u, 56u, 63u, 64u, 65u, 999u}) {
    Sha256 sha;
    for (std::size_t at = 0; at < text.size(); at += part)
      sha.add(std::as_bytes(std::span(text).subspan(at, std::min(part, text.size() - at))));
    EXPECT_EQ(sha.finish(), digest(text)) << part;
  }
}

TEST(Sha256, OfAFileIsThatOfItsBytes) {
  const testing::ScratchFolder folder;
  EXPECT_EQ(sha256_of_file(folder.write("file", "abc")).value(), digest("abc"));
  EXPECT_FALSE(sha256_of_file(folder.path() / "missing"));
}

}  // namespace
}  // namespace muster
