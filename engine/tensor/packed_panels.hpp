// A packed weight's memory on a device that reads codes in words (engine/cuda/packed_kernels.hpp, Note [Words of
// codes]), as tensors: filled from the host's, which lies as the CPU's kernels have it (kernels/coded/coded_panels.hpp).
#pragma once

#include "tensor/primitives.hpp"

namespace muster::tensor {

// Where what lies.
struct WordPlaces {
  std::int64_t scales = 0;  // in bytes; the codes come first
  std::int64_t phases = 0;
  std::int64_t bytes = 0;  // of all
  std::int64_t slots = 0;  // scales of a row
  bool has_phases = false;
};
WordPlaces word_places(std::int64_t outputs, std::int64_t inputs, const WeightForm& form);

// Rows first_row and following of the weight become those of `rows`, a packed weight of the same form in the host's
// memory. Several threads may do so for different rows.
void copy_packed_rows(const Weight& weight, std::int64_t first_row, const Weight& rows);
// The scales alone, of all rows: `from` lies as the weight does.
void copy_packed_scales(const Weight& weight, const Weight& from);

}  // namespace muster::tensor
