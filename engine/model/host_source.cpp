#include "model/host_source.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace muster::model {
namespace {

using checkpoint::TensorEntry;
using checkpoint::TensorSlice;

struct Kept {
  std::once_flag once;
  Result<void> read;
  spec::ElementType type = spec::ElementType::float32;
  std::vector<std::byte> bytes;
};

class HostSource : public checkpoint::TensorSource {
 public:
  explicit HostSource(const checkpoint::TensorSource& source) : source_(source) {}

  std::span<const TensorEntry> tensors() const override { return source_.tensors(); }
  const TensorEntry* find(std::string_view name) const override { return source_.find(name); }
  std::uint64_t bytes_read() const override { return source_.bytes_read(); }
  std::optional<checkpoint::PackedTensor> packed(std::string_view name) const override { return source_.packed(name); }
  Result<void> read_packed(std::string_view name, std::int64_t first_row, std::int64_t rows, std::span<std::byte> codes,
                           std::span<float> scales) const override {
    return source_.read_packed(name, first_row, rows, codes, scales);
  }

  Result<void> read(std::string_view name, const TensorSlice& slice, spec::ElementType as,
                    std::span<std::byte> out) const override {
    const TensorEntry* entry = source_.find(name);
    if (entry == nullptr || entry->dimensions.rank > 2) return source_.read(name, slice, as, out);
    Kept& kept = kept_of(entry);
    std::call_once(kept.once, [&] {
      std::size_t elements = 1;
      for (std::size_t i = 0; i < entry->dimensions.rank; ++i)
        elements *= static_cast<std::size_t>(entry->dimensions.sizes[i]);
      kept.type = as;
      kept.bytes.resize(elements * static_cast<std::size_t>(spec::bytes_per_element(as)));
      kept.read = source_.read(name, {}, as, kept.bytes);
    });
    if (!kept.read) return kept.read;
    if (kept.type != as) return source_.read(name, slice, as, out);
    return copy(*entry, kept, slice, out);
  }

 private:
  Kept& kept_of(const TensorEntry* entry) const {
    const std::lock_guard lock(mutex_);
    auto& kept = kept_[entry];
    if (!kept) kept = std::make_unique<Kept>();
    return *kept;
  }

  static Result<void> copy(const TensorEntry& entry, const Kept& kept, const TensorSlice& slice,
                           std::span<std::byte> out) {
    const auto width = static_cast<std::size_t>(spec::bytes_per_element(kept.type));
    const std::int64_t all_columns = entry.dimensions.rank == 2 ? entry.dimensions.sizes[1] : 1;
    const auto columns = static_cast<std::size_t>(slice.columns.value_or(all_columns - slice.first_column));
    const auto stride = static_cast<std::size_t>(all_columns) * width;
    const std::size_t begin =
        static_cast<std::size_t>(slice.first_row) * stride + static_cast<std::size_t>(slice.first_column) * width;
    const std::size_t rows = columns == 0 ? 0 : out.size() / (columns * width);
    for (std::size_t row = 0; row < rows; ++row)
      std::memcpy(out.data() + row * columns * width, kept.bytes.data() + begin + row * stride, columns * width);
    return {};
  }

  const checkpoint::TensorSource& source_;
  mutable std::mutex mutex_;  // of the map, not of what is in it
  mutable std::map<const TensorEntry*, std::unique_ptr<Kept>> kept_;
};

}  // namespace

std::unique_ptr<checkpoint::TensorSource> make_host_source(const checkpoint::TensorSource& source) {
  return std::make_unique<HostSource>(source);
}

}  // namespace muster::model
