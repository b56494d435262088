// A weight matrix [outputs, inputs] in 8 or 4 bits: codes, and scales that runs of them share, in the order that
// products read them. A number of it is the product of what its code stands for and its scale, rounded once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/coded/coded_panels.hpp"
#include "kernels/scalar.hpp"
#include "kernels/thread_team.hpp"

namespace muster::kernels {

// A view: the memory is the caller's, bytes_needed of it, best aligned to 64 bytes.
class CodedMatrix {
 public:
  CodedMatrix(std::byte* data, std::int64_t outputs, std::int64_t inputs, const CodedForm& form)
      : panels_{form, outputs, inputs, data} {}

  static std::size_t bytes_needed(std::int64_t outputs, std::int64_t inputs, const CodedForm& form);

  std::int64_t outputs() const { return panels_.outputs; }
  std::int64_t inputs() const { return panels_.inputs; }
  const CodedPanels& panels() const { return panels_; }
  // In this many rows, the first of which begins a run.
  std::int64_t runs_of(std::int64_t rows) const { return (rows * inputs() + panels_.run() - 1) / panels_.run(); }

  // Rows first_row … first_row + rows of the matrix, of which the first begins a run. They may come in any order and
  // number; the matrix is complete when every row has been given.
  // code_rows finds codes and scales for row-major [rows, inputs], as bitsandbytes does.
  void code_rows(ThreadTeam& team, std::int64_t first_row, std::int64_t rows, const void* row_major, Scalar from);
  // codes: 8 bits: [rows, inputs]; 4 bits: two a byte, the earlier in its upper half. scales: the largest magnitudes of
  // the runs.
  void fill_codes(std::int64_t first_row, std::int64_t rows, const std::uint8_t* codes, std::span<const float> scales);

  // What a run's codes are multiplied by, of rows whose first begins a run, one number a run.
  std::vector<float> scales_of(std::int64_t first_row, std::int64_t rows) const;
  void replace_scales(std::int64_t first_row, std::int64_t rows, std::span<const float> scales);

  void copy_row(std::int64_t row, void* out, Scalar to) const;

 private:
  CodingJob begin_rows(std::int64_t first_row, std::int64_t rows);

  CodedPanels panels_;
};

struct PlainRows {
  std::int64_t rows = 0;
  std::int64_t inputs = 0;
  const void* row_major = nullptr;
  Scalar scalar = Scalar::float32;
};

// Codes in the order of the elements, two of 4 bits in a byte with the earlier in its upper half; the largest magnitude
// of each run.
struct CodedRows {
  std::span<std::uint8_t> codes;
  std::span<float> magnitudes;
};

// What CodedMatrix::code_rows finds, in the order that files have it. to has exactly the size of the rows, the last run
// and the last byte of which may be short.
void code_rows(ThreadTeam& team, const CodedForm& form, const PlainRows& from, const CodedRows& to);

}  // namespace muster::kernels
