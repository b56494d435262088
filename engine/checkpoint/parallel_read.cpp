#include "checkpoint/parallel_read.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

namespace muster::checkpoint {
namespace {

constexpr std::size_t part_bytes = std::size_t{8} << 20;

// Parts of about part_bytes. Slices that are wrong stay whole, so that the source refuses them with its own message.
std::vector<TensorRead> split(const TensorSource& source, const TensorRead& whole) {
  const TensorEntry* entry = source.find(whole.name);
  if (entry == nullptr || entry->dimensions.rank != 2 || whole.out.size() <= part_bytes) return {whole};
  const std::int64_t rows = whole.slice.rows.value_or(entry->dimensions.sizes[0] - whole.slice.first_row);
  if (rows < 2 || whole.out.size() % static_cast<std::size_t>(rows) != 0) return {whole};
  const std::size_t row_bytes = whole.out.size() / static_cast<std::size_t>(rows);
  const std::int64_t step = std::max<std::int64_t>(1, static_cast<std::int64_t>(part_bytes / row_bytes));
  std::vector<TensorRead> parts;
  for (std::int64_t row = 0; row < rows; row += step) {
    TensorRead part = whole;
    part.slice.first_row += row;
    part.slice.rows = std::min(step, rows - row);
    part.out = whole.out.subspan(static_cast<std::size_t>(row) * row_bytes,
                                 static_cast<std::size_t>(*part.slice.rows) * row_bytes);
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

Result<void> read_tensors(const TensorSource& source, std::span<const TensorRead> reads, int threads) {
  std::vector<TensorRead> parts;
  for (const TensorRead& read : reads) std::ranges::move(split(source, read), std::back_inserter(parts));
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  Result<void> outcome;
  const auto work = [&] {
    for (std::size_t i = next++; i < parts.size(); i = next++) {
      const TensorRead& part = parts[i];
      auto read = source.read(part.name, part.slice, part.as, part.out);
      if (read) continue;
      const std::lock_guard guard(mutex);
      if (outcome) outcome = std::move(read);
      next = parts.size();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  return outcome;
}

}  // namespace muster::checkpoint
