#include "system/hmac.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "system/sha256.hpp"

namespace muster {
namespace {

constexpr std::size_t block_size = 64;  // of SHA-256

}  // namespace

HmacCode hmac_sha256(std::span<const std::byte> key, std::string_view message) {
  std::array<std::byte, block_size> block{};
  if (key.size() > block_size) {
    Sha256 short_key;
    short_key.add(key);
    std::ranges::copy(short_key.digest(), block.begin());
  } else {
    std::ranges::copy(key, block.begin());
  }
  std::array<std::byte, block_size> inner_block{}, outer_block{};
  for (std::size_t i = 0; i < block_size; ++i) {
    inner_block[i] = block[i] ^ std::byte{0x36};
    outer_block[i] = block[i] ^ std::byte{0x5c};
  }
  Sha256 inner, outer;
  inner.add(inner_block);
  inner.add(std::as_bytes(std::span(message)));
  outer.add(outer_block);
  outer.add(inner.digest());
  return outer.digest();
}

HmacCode hmac_sha256(std::string_view key, std::string_view message) {
  return hmac_sha256(std::as_bytes(std::span(key)), message);
}

bool equal_in_constant_time(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  volatile int difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i) difference = difference | (one[i] ^ other[i]);
  return difference == 0;
}

std::string to_hexadecimal(std::span<const std::byte> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += digits[std::to_integer<std::size_t>(byte >> 4)];
    text += digits[std::to_integer<std::size_t>(byte & std::byte{0xf})];
  }
  return text;
}

std::string random_hexadecimal(std::size_t bytes) {
  std::vector<std::byte> random(bytes);
  for (std::size_t have = 0; have < bytes;) {
    const ssize_t got = ::getrandom(random.data() + have, bytes - have, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw std::system_error(errno, std::generic_category(), "random bytes");
    have += static_cast<std::size_t>(got);
  }
  return to_hexadecimal(random);
}

}  // namespace muster
