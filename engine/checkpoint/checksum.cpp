#include "checkpoint/checksum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "base/bit_mix.hpp"

namespace muster::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read without swapping bytes");

constexpr std::uint64_t multiplier = 0x9e3779b97f4a7c15u;
constexpr std::size_t lane_count = 8;

// Whole blocks. The lanes are a local copy, so that they stay in registers.
void take_blocks(std::array<std::uint64_t, lane_count>& lanes, const std::byte* bytes, std::size_t blocks) {
  std::array<std::uint64_t, lane_count> local = lanes;
  for (; blocks > 0; --blocks, bytes += lane_count * sizeof(std::uint64_t)) {
    std::array<std::uint64_t, lane_count> words;
    std::memcpy(words.data(), bytes, sizeof words);
    for (std::size_t i = 0; i < lane_count; ++i) local[i] = std::rotl((local[i] ^ words[i]) * multiplier, 31);
  }
  lanes = local;
}

}  // namespace

Checksum::Checksum() {
  for (std::size_t i = 0; i < lanes_.size(); ++i) lanes_[i] = mix_bits(i + 1);
}

void Checksum::add(std::span<const std::byte> bytes) {
  length_ += bytes.size();
  if (rest_size_ > 0) {
    const std::size_t taken = std::min(bytes.size(), block_bytes - rest_size_);
    std::copy_n(bytes.begin(), taken, rest_.begin() + static_cast<std::ptrdiff_t>(rest_size_));
    rest_size_ += taken;
    bytes = bytes.subspan(taken);
    if (rest_size_ < block_bytes) return;
    take_blocks(lanes_, rest_.data(), 1);
    rest_size_ = 0;
  }
  const std::size_t blocks = bytes.size() / block_bytes;
  take_blocks(lanes_, bytes.data(), blocks);
  const auto rest = bytes.subspan(blocks * block_bytes);
  std::ranges::copy(rest, rest_.begin());
  rest_size_ = rest.size();
}

std::uint64_t Checksum::value() const {
  std::array<std::uint64_t, lane_count> lanes = lanes_;
  if (rest_size_ > 0) {
    std::array<std::byte, block_bytes> last{};
    std::copy_n(rest_.begin(), rest_size_, last.begin());
    take_blocks(lanes, last.data(), 1);
  }
  std::uint64_t sum = length_;
  for (const std::uint64_t lane : lanes) sum = mix_bits(sum ^ lane);
  return sum;
}

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  Checksum checksum;
  checksum.add(bytes);
  return checksum.value();
}

std::uint64_t checksum_of(std::string_view text) { return checksum_of(std::as_bytes(std::span(text))); }

std::string checksum_text(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

std::optional<std::uint64_t> parse_checksum(std::string_view text) {
  std::uint64_t checksum = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), checksum, 16);
  const bool whole = failure == std::errc{} && end == text.data() + text.size();
  if (!whole || checksum_text(checksum) != text) return std::nullopt;
  return checksum;
}

}  // namespace muster::checkpoint
