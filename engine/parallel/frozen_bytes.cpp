#include "parallel/frozen_bytes.hpp"

#include <algorithm>

namespace muster::parallel {
namespace {

// Every storage begins at a multiple of this, for kernels that read many bytes at a time.
constexpr std::int64_t alignment = 256;

std::int64_t rounded_up(std::int64_t count, std::int64_t to) { return (count + to - 1) / to * to; }

}  // namespace

at::Tensor FrozenBytes::part(int part, int parts) {
  std::int64_t end = 0;
  shapes_.clear();
  places_.clear();
  for (const at::Tensor& storage : storages_) {
    shapes_.push_back(storage.sizes().vec());
    places_.push_back({end, static_cast<std::int64_t>(storage.nbytes())});
    end = rounded_up(end + places_.back().bytes, alignment);
  }
  const std::int64_t length = rounded_up(end, alignment * parts) / parts, first = part * length;
  const at::Tensor own = at::zeros({length}, storages_.front().options().dtype(at::kByte));
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    const auto [offset, bytes] = places_[i];
    const std::int64_t begin = std::max(offset, first), stop = std::min(offset + bytes, first + length);
    if (begin >= stop) continue;
    const at::Tensor all = storages_[i].view(-1).view(at::kByte);
    own.narrow(0, begin - first, stop - begin).copy_(all.narrow(0, begin - offset, stop - begin));
  }
  return own.view(at::kLong);
}

void FrozenBytes::adopt(const at::Tensor& all) const {
  const at::Tensor bytes = all.view(at::kByte);
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    at::Tensor storage = storages_[i];
    const at::Tensor lies = bytes.narrow(0, places_[i].offset, places_[i].bytes);
    storage.set_(lies.view(storage.scalar_type()).view(shapes_[i]));
  }
}

void FrozenBytes::release() const {
  for (at::Tensor storage : storages_) storage.set_(at::empty({0}, storage.options()));
}

}  // namespace muster::parallel
