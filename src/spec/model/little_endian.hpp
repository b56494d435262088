// Numbers as the checkpoint formats store them: least significant byte first.
#pragma once

#include <bit>
#include <cstring>
#include <string_view>

namespace muster::spec {

static_assert(std::endian::native == std::endian::little, "the checkpoint formats are read without swapping bytes");

// The number at the start of bytes, which must hold at least sizeof(Number) of them.
template <class Number>
Number load_little_endian(std::string_view bytes) {
  Number number{};
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

}  // namespace muster::spec
