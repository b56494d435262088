// A 64-bit checksum that is faster than any disk: it detects damage, not forgery.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster::checkpoint {

// Note [Checksum]: the bytes, with zeros up to a multiple of 64, are words of 64 bits, least significant byte first;
// word i goes to lane i mod 8. A lane takes a word by lane = rotate_left((lane xor word) * M, 31), M =
// 0x9e3779b97f4a7c15, and starts as mix(number of the lane + 1); mix is base/bit_mix.hpp's. At the end
// sum = mix(sum xor lane) over the lanes in order, from sum = the number of bytes. Each of these steps can be undone,
// so that damage within one word, wherever it is, always changes the checksum.
class Checksum {
 public:
  Checksum();
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  // The checksum of everything added so far.
  std::uint64_t value() const;

 private:
  static constexpr std::size_t block_bytes = 64;

  std::array<std::uint64_t, 8> lanes_;
  std::array<std::byte, block_bytes> rest_{};  // what does not fill a block yet
  std::size_t rest_size_ = 0;
  std::uint64_t length_ = 0;
};

std::uint64_t checksum_of(std::span<const std::byte> bytes);
std::uint64_t checksum_of(std::string_view text);

// As files spell it: sixteen lower-case hexadecimal digits.
std::string checksum_text(std::uint64_t checksum);
std::optional<std::uint64_t> parse_checksum(std::string_view text);

}  // namespace muster::checkpoint
