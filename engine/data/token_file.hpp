// Prepared samples on disk. Little-endian:
//
//   start     magic, version                                            16 bytes
//   tokens    int32 each, of all samples one after another; then zeros up to a multiple of 8
//   spans     {uint32 begin, end; uint64 speaker} of each trained span, counted from its sample's first token
//   index     {uint64 first token, first span; uint32 trained tokens, label} of each sample, and one more after the last
//   footer    counts, a checksum of each part and of itself             sizeof(TokenFileFooter)
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "data/sample.hpp"

namespace muster::data {

constexpr std::uint32_t token_file_version = 3;

struct TokenFileStart {
  std::uint64_t magic = 0x314e454b4f54534dU;  // "MSTOKEN1"
  std::uint32_t version = token_file_version;
  std::uint32_t zero = 0;

  bool operator==(const TokenFileStart&) const = default;
};

struct TokenFileFooter {
  std::uint64_t samples = 0, tokens = 0, spans = 0, trained_tokens = 0;
  std::uint64_t reply_tokens = 0;
  std::uint64_t cut = 0, dropped = 0, token_limit = 0, longest = 0, conversations = 0, split = 0;
  std::uint64_t trajectories = 0, poor = 0, older = 0;
  std::uint64_t token_checksum = 0, span_checksum = 0, index_checksum = 0;
  std::uint64_t own_checksum = 0;  // of the start and of what stands before this
};

struct SampleIndex {
  std::uint64_t token = 0;
  std::uint64_t span = 0;
  std::uint32_t trained = 0;
  std::uint32_t label = 0;
};

// A checksum over blocks, which several threads can make: each block's is folded into the sum in order.
constexpr std::size_t checksum_block = std::size_t{1} << 20;
std::uint64_t fold_checksum(std::uint64_t sum, std::uint64_t block);
SampleCounts counts_of(const TokenFileFooter& footer);
// The footer's own.
std::uint64_t checksum_of(const TokenFileStart& start, const TokenFileFooter& footer);

// Writes samples as they arrive: memory does not grow with their number. Without commit() nothing is left behind.
class TokenFileWriter {
 public:
  static Result<TokenFileWriter> create(const std::filesystem::path& place);
  TokenFileWriter(TokenFileWriter&&) noexcept;
  ~TokenFileWriter();

  Result<void> add(const Sample& sample);
  // Keeps from `told` what the samples do not show by themselves: cut, dropped, conversations and what comes after it.
  Result<SampleCounts> commit(const SampleCounts& told);

 private:
  struct Parts;
  explicit TokenFileWriter(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::data
