// The trained parameters of one unit, laid one after another into a flat tensor: what is reduced, stepped, sharded and saved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/parameter.hpp"

namespace muster::parallel {

// Every parameter begins at a multiple of this, so that a cut at one falls into no block of 256 that sums are made of.
inline constexpr std::int64_t flat_alignment = 256;

// Consecutive elements of a tensor, as the model has it, and where they lie in the flat one.
struct FlatPiece {
  std::string tensor;
  std::int64_t first = 0;   // element of the tensor
  std::int64_t offset = 0;  // in the flat one
  std::int64_t count = 0;
  // The whole tensor, as the model has it.
  std::int64_t rows = 0;
  std::optional<std::int64_t> columns;
  bool transposed = false;  // the model's files have it as [columns, rows]
};

class FlatLayout {
 public:
  // all: of the model; those of the unit that are trained are laid out.
  FlatLayout(const std::vector<model::Parameter>& all, model::UnitId unit);

  struct Entry {
    model::ParameterId parameter{};
    std::int64_t offset = 0;
    std::vector<std::int64_t> shape;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  // With the gaps between parameters, whose values are always 0.
  std::int64_t elements() const { return elements_; }
  // Elements of each of this many parts, all of one length; the last ones may reach past the end, where values are 0.
  std::int64_t part_elements(int parts) const {
    const std::int64_t step = flat_alignment * parts;
    return (elements_ + step - 1) / step * flat_alignment;
  }
  // A parameter's part of the flat tensor, in its shape.
  static at::Tensor view(const at::Tensor& flat, const Entry& entry);
  // What the elements [first, first + count) are; offsets from first on.
  std::vector<FlatPiece> pieces(std::int64_t first, std::int64_t count) const;

 private:
  std::vector<Entry> entries_;
  std::vector<FlatPiece> pieces_;
  std::int64_t elements_ = 0;
};

}  // namespace muster::parallel
