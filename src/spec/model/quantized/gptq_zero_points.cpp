#include "spec/model/quantized/gptq_zero_points.hpp"

#include <algorithm>
#include <span>

#include "spec/model/bit_field.hpp"
#include "system/regular_file.hpp"

namespace muster::spec {
namespace {

constexpr std::uint64_t looked_at = 1 << 20;  // bytes

bool holds_zero_points(const StoredTensor& tensor) {
  return tensor.name.ends_with(".qzeros") && tensor.type == ElementType::int32 && tensor.dimensions.rank == 2 &&
         tensor.dimensions.sizes[1] > 0;
}

// Words of whole rows; fields begin anew in each row.
bool has_full_field(std::span<const std::uint32_t> words, std::size_t row_words, int bits) {
  const std::uint32_t full = (std::uint32_t{1} << bits) - 1;
  const std::int64_t fields = static_cast<std::int64_t>(row_words) * 32 / bits;
  for (; words.size() >= row_words; words = words.subspan(row_words))
    for (std::int64_t i = 0; i < fields; ++i)
      if (bit_field(words.data(), i * bits, bits) == full) return true;
  return false;
}

}  // namespace

Result<bool> has_doubtful_zero_points(const GptqQuantization& method, const std::vector<CheckpointFile>& files) {
  if (method.symmetric || !method.zeros_less_one) return false;
  std::uint64_t left = looked_at;
  for (const CheckpointFile& file : files) {
    const auto opened = RegularFile::open(file.path);
    if (!opened) return opened.error();
    for (const StoredTensor& tensor : file.header.tensors) {
      if (!holds_zero_points(tensor)) continue;
      const auto row_words = static_cast<std::size_t>(tensor.dimensions.sizes[1]);
      const std::uint64_t rows = std::min(tensor.end - tensor.begin, left) / sizeof(std::uint32_t) / row_words;
      std::vector<std::uint32_t> words(rows * row_words);
      if (words.empty()) return false;
      if (auto read = opened->read_at(tensor.begin, std::as_writable_bytes(std::span(words))); !read)
        return read.error();
      if (has_full_field(words, row_words, method.bits)) return true;
      left -= words.size() * sizeof(std::uint32_t);
    }
  }
  return false;
}

}  // namespace muster::spec
