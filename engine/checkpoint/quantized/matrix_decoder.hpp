// What one method of quantising makes of the parts of a matrix.
#pragma once

#include <memory>
#include <vector>

#include "checkpoint/safetensors_source.hpp"
#include "spec/model/quantized/quantized_tensors.hpp"

namespace muster::checkpoint {

// A part of a matrix as it was quantised, a row for each output.
struct MatrixTile {
  std::int64_t first_row = 0, rows = 0;
  std::int64_t first_column = 0, columns = 0;

  std::int64_t elements() const { return rows * columns; }
};

// Safe in several threads. Matrices are known by their number.
class MatrixDecoder {
 public:
  virtual ~MatrixDecoder() = default;

  // "nf4": what the codes are.
  virtual std::string_view stored_as(std::size_t matrix) const = 0;
  // The numbers of a tile that has any, row by row.
  virtual Result<void> decode(std::size_t matrix, const MatrixTile& tile, std::span<float> numbers) const = 0;
  // Files hold a matrix input by input: its tiles had better be tall than wide.
  virtual bool by_inputs() const { return false; }

  virtual std::optional<PackedTensor> packed(std::size_t) const { return std::nullopt; }
  // Only of matrices that are packed(); the spans have the size of the rows.
  virtual Result<void> read_packed(std::size_t, std::int64_t, std::int64_t, std::span<std::byte>,
                                   std::span<float>) const {
    return {};
  }
};

// Each reads what belongs to all of a matrix, and refuses what contradicts itself. files and matrices outlive it.
using Matrices = std::vector<spec::QuantizedMatrix>;
using NewDecoder = Result<std::unique_ptr<MatrixDecoder>>;
NewDecoder make_decoder(const spec::BitsAndBytesQuantization& method, const SafetensorsSource& files,
                        const Matrices& matrices);
NewDecoder make_decoder(const spec::Float8Quantization& method, const SafetensorsSource& files,
                        const Matrices& matrices);
NewDecoder make_decoder(const spec::CompressedQuantization& method, const SafetensorsSource& files,
                        const Matrices& matrices);
NewDecoder make_decoder(const spec::GptqQuantization& method, const SafetensorsSource& files, const Matrices& matrices);
NewDecoder make_decoder(const spec::AwqQuantization& method, const SafetensorsSource& files, const Matrices& matrices);

// A refusal of what a matrix is made of.
Error wrong_part(const spec::QuantizedMatrix& matrix, std::string_view word, std::string_view what);

}  // namespace muster::checkpoint
