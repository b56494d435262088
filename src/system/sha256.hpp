// The SHA-256 digest: whether a file is the expected one, and the basis of seals (hmac.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/result.hpp"

namespace muster {

class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  // The digest of everything added; nothing can be added afterwards.
  std::array<std::byte, 32> digest();
  // The same as 64 hexadecimal digits.
  std::string finish();

 private:
  void take_block(const std::byte* block);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> rest_{};  // what does not fill a block yet
  std::size_t rest_size_ = 0;
  std::uint64_t length_ = 0;
};

Result<std::string> sha256_of_file(const std::filesystem::path& path);

}  // namespace muster
