#include "checkpoint/adapted_source.hpp"

#include <vector>

namespace muster::checkpoint {
namespace {

class AdaptedSource final : public TensorSource {
 public:
  AdaptedSource(std::unique_ptr<TensorSource> base, std::unique_ptr<TensorSource> adapter)
      : base_(std::move(base)), adapter_(std::move(adapter)) {
    for (const TensorEntry& entry : base_->tensors())
      if (adapter_->find(entry.name) == nullptr) entries_.push_back(entry);
    for (const TensorEntry& entry : adapter_->tensors()) entries_.push_back(entry);
  }

  std::span<const TensorEntry> tensors() const override { return entries_; }
  const TensorEntry* find(std::string_view name) const override { return of(name).find(name); }
  Result<void> read(std::string_view name, const TensorSlice& slice, spec::ElementType as,
                    std::span<std::byte> out) const override {
    return of(name).read(name, slice, as, out);
  }
  const std::byte* view(std::string_view name) const override { return of(name).view(name); }
  void release(std::string_view name) const override { of(name).release(name); }
  std::optional<PackedTensor> packed(std::string_view name) const override { return of(name).packed(name); }
  Result<void> read_packed(std::string_view name, std::int64_t first_row, std::int64_t rows, std::span<std::byte> codes,
                           std::span<float> scales) const override {
    return of(name).read_packed(name, first_row, rows, codes, scales);
  }
  std::uint64_t bytes_read() const override { return base_->bytes_read() + adapter_->bytes_read(); }

 private:
  const TensorSource& of(std::string_view name) const { return adapter_->find(name) != nullptr ? *adapter_ : *base_; }

  std::unique_ptr<TensorSource> base_, adapter_;
  std::vector<TensorEntry> entries_;
};

}  // namespace

std::unique_ptr<TensorSource> with_adapter(std::unique_ptr<TensorSource> base, std::unique_ptr<TensorSource> adapter) {
  return std::make_unique<AdaptedSource>(std::move(base), std::move(adapter));
}

}  // namespace muster::checkpoint
