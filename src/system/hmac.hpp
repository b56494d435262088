// HMAC-SHA-256 (RFC 2104, FIPS 198-1): a code that only someone who knows the key can compute for a message.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace muster {

using HmacCode = std::array<std::byte, 32>;

HmacCode hmac_sha256(std::span<const std::byte> key, std::string_view message);
HmacCode hmac_sha256(std::string_view key, std::string_view message);

// Takes the same time wherever the two differ, so that a code cannot be guessed byte by byte.
bool equal_in_constant_time(std::string_view one, std::string_view other);

std::string to_hexadecimal(std::span<const std::byte> bytes);

// Bytes from the kernel's generator, as hexadecimal digits: two for each byte. Throws if the kernel gives none.
std::string random_hexadecimal(std::size_t bytes);

}  // namespace muster
