#include "parallel/flat_layout.hpp"

#include <algorithm>

namespace muster::parallel {

FlatLayout::FlatLayout(const std::vector<model::Parameter>& all, model::UnitId unit) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const model::Parameter& parameter = all[i];
    if (parameter.unit != unit || !parameter.trained) continue;
    entries_.push_back({model::ParameterId{i}, elements_, parameter.shape()});
    std::int64_t offset = elements_;
    for (const auto& [name, rows] : parameter.pieces) {
      const std::int64_t count = rows * parameter.columns.value_or(1);
      pieces_.push_back({name, 0, offset, count, rows, parameter.columns, parameter.transposed});
      offset += count;
    }
    elements_ = (offset + flat_alignment - 1) / flat_alignment * flat_alignment;
  }
}

at::Tensor FlatLayout::view(const at::Tensor& flat, const Entry& entry) {
  std::int64_t count = 1;
  for (const std::int64_t size : entry.shape) count *= size;
  return flat.narrow(0, entry.offset, count).view(entry.shape);
}

std::vector<FlatPiece> FlatLayout::pieces(std::int64_t first, std::int64_t count) const {
  std::vector<FlatPiece> found;
  for (const FlatPiece& piece : pieces_) {
    const std::int64_t begin = std::max(first, piece.offset);
    const std::int64_t end = std::min(first + count, piece.offset + piece.count);
    if (begin >= end) continue;
    FlatPiece part = piece;
    part.first += begin - piece.offset;
    part.offset = begin - first;
    part.count = end - begin;
    found.push_back(std::move(part));
  }
  return found;
}

}  // namespace muster::parallel
