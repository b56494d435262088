#include "checkpoint/adapters/adapted_source.hpp"

#include <fmt/format.h>

#include <map>

namespace muster::checkpoint {
namespace {

class AdaptedSource final : public TensorSource {
 public:
  AdaptedSource(std::unique_ptr<TensorSource> base, std::vector<std::unique_ptr<TensorSource>> adapters)
      : base_(std::move(base)), adapters_(std::move(adapters)) {
    for (const TensorEntry& entry : base_->tensors())
      if (adapters_.front()->find(entry.name) == nullptr) entries_.push_back(entry);
    for (std::size_t i = 0; i < adapters_.size(); ++i)
      for (TensorEntry entry : adapters_[i]->tensors()) {
        const std::string own = entry.name;
        entry.name = adapted_name(i, own);
        places_[entry.name] = {adapters_[i].get(), own, entries_.size()};
        entries_.push_back(std::move(entry));
      }
  }

  std::span<const TensorEntry> tensors() const override { return entries_; }
  const TensorEntry* find(std::string_view name) const override {
    const auto place = places_.find(name);
    return place == places_.end() ? base_->find(name) : &entries_[place->second.entry];
  }
  Result<void> read(std::string_view name, const TensorSlice& slice, spec::ElementType as,
                    std::span<std::byte> out) const override {
    const auto place = places_.find(name);
    return place == places_.end() ? base_->read(name, slice, as, out)
                                  : place->second.source->read(place->second.name, slice, as, out);
  }
  const std::byte* view(std::string_view name) const override {
    const auto place = places_.find(name);
    return place == places_.end() ? base_->view(name) : place->second.source->view(place->second.name);
  }
  void release(std::string_view name) const override {
    if (!places_.contains(name)) base_->release(name);
  }
  std::uint64_t bytes_read() const override {
    std::uint64_t bytes = base_->bytes_read();
    for (const auto& adapter : adapters_) bytes += adapter->bytes_read();
    return bytes;
  }
  std::optional<PackedTensor> packed(std::string_view name) const override {
    return places_.contains(name) ? std::nullopt : base_->packed(name);
  }
  Result<void> read_packed(std::string_view name, std::int64_t first_row, std::int64_t rows, std::span<std::byte> codes,
                           std::span<float> scales) const override {
    return base_->read_packed(name, first_row, rows, codes, scales);
  }

 private:
  struct Place {
    const TensorSource* source = nullptr;
    std::string name;  // there
    std::size_t entry = 0;
  };

  std::unique_ptr<TensorSource> base_;
  std::vector<std::unique_ptr<TensorSource>> adapters_;
  std::vector<TensorEntry> entries_;
  std::map<std::string, Place, std::less<>> places_;  // of the adapters' tensors
};

}  // namespace

std::string adapted_name(std::size_t adapter, std::string_view tensor) {
  return adapter == 0 ? std::string(tensor) : fmt::format("{} of adapter {}", tensor, adapter);
}

std::unique_ptr<TensorSource> with_adapters(std::unique_ptr<TensorSource> base,
                                            std::vector<std::unique_ptr<TensorSource>> adapters) {
  if (adapters.empty()) return base;
  return std::make_unique<AdaptedSource>(std::move(base), std::move(adapters));
}

}  // namespace muster::checkpoint
