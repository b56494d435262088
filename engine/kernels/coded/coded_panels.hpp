// How a matrix of codes lies in memory. Inside this layer only.
//
// Note [Coded panels]
// Panels of sixteen outputs, as in a PackedMatrix. 8 bits: [inputs][16] bytes. 4 bits: [inputs / 8][16] words of 32 bits:
// the code of input 8g + i is nibble i, lowest first, of a word of group g.
// Behind all panels lie their scales, [slots][16] each. A run of consecutive elements of the matrix, row by row, shares
// a scale; a row has a slot for every run that it has a part of. Where runs may cross rows, each row's phase lies
// behind the scales: how many elements of its first run came before it. Input k of row r has the scale in slot
// (k + phase[r]) / run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/coded/codes.hpp"
#include "kernels/product.hpp"
#include "kernels/scalar.hpp"

namespace muster::kernels {

constexpr std::int64_t group_inputs = 8;

struct NibbleGroup {
  std::uint32_t words[panel_columns];
};

struct CodedForm {
  Code code = Code::nf4;
  std::int64_t run = 64;              // 4 bits: a power of two
  Scalar rounded = Scalar::float32;  // code times scale is rounded to this
};

struct CodedPanels {
  CodedForm form;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  std::byte* data = nullptr;

  [[gnu::always_inline]] bool has_bytes() const { return form.code == Code::int8; }
  [[gnu::always_inline]] std::int64_t run() const { return has_bytes() ? inputs : form.run; }
  [[gnu::always_inline]] bool crosses_rows() const { return !has_bytes() && inputs % form.run != 0; }
  [[gnu::always_inline]] std::int64_t slots() const {
    if (crosses_rows()) return (inputs + form.run - 2) / form.run + 1;
    return has_bytes() ? 1 : inputs / form.run;
  }
  // So many inputs have the same scales, from any multiple of it on, within 256.
  [[gnu::always_inline]] std::int64_t steady_inputs() const {
    if (has_bytes()) return inner_block;
    const std::int64_t steady = crosses_rows() ? inputs & -inputs : form.run;
    return steady < inner_block ? steady : inner_block;
  }
  [[gnu::always_inline]] std::int64_t panels() const { return (outputs + panel_columns - 1) / panel_columns; }
  [[gnu::always_inline]] std::int64_t panel_groups() const { return (inputs + group_inputs - 1) / group_inputs; }
  [[gnu::always_inline]] std::int64_t panel_bytes() const {
    return has_bytes() ? inputs * panel_columns : panel_groups() * static_cast<std::int64_t>(sizeof(NibbleGroup));
  }

  [[gnu::always_inline]] std::int8_t* bytes(std::int64_t panel) const {
    return reinterpret_cast<std::int8_t*>(data + panel * panel_bytes());
  }
  [[gnu::always_inline]] NibbleGroup* groups(std::int64_t panel) const {
    return reinterpret_cast<NibbleGroup*>(data + panel * panel_bytes());
  }
  [[gnu::always_inline]] float* scales(std::int64_t panel) const {
    return reinterpret_cast<float*>(data + panels() * panel_bytes()) + panel * slots() * panel_columns;
  }
  [[gnu::always_inline]] std::uint16_t* phases(std::int64_t panel) const {
    return reinterpret_cast<std::uint16_t*>(scales(panels())) + panel * panel_columns;
  }
};

// Elements, row by row, that are to become rows first_row and following.
struct CodingJob {
  CodedPanels panels;
  const void* plain = nullptr;
  Scalar plain_scalar = Scalar::float32;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  // Where codes and the largest magnitudes of runs go in the order of the elements; nullptr: into the panels.
  std::uint8_t* flat_codes = nullptr;
  float* flat_magnitudes = nullptr;

  [[gnu::always_inline]] std::int64_t elements() const { return rows * panels.inputs; }
};

// Codes of elements [first, first + count) of a job's, and the largest magnitude of the run that they are.
void place_codes(const CodingJob& job, std::int64_t first, std::int64_t count, const std::uint8_t* codes);
void place_magnitude(const CodingJob& job, std::int64_t first, std::int64_t count, float magnitude);

}  // namespace muster::kernels
