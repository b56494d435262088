#include "train/piece_reader.hpp"

#include "train/element_blocks.hpp"

namespace muster::train {
namespace {

using checkpoint::TensorSlice;
using parallel::FlatPiece;

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

Result<void> read_block(const checkpoint::TrainingCheckpoint& checkpoint, const std::string& tensor,
                        const std::string& state, const ElementBlock& block, std::span<float> out) {
  if (block.is_one_run()) return checkpoint.read(tensor, state, block.first, out);
  const auto length = static_cast<std::size_t>(block.length);
  for (std::int64_t line = 0; line < block.lines; ++line)
    if (auto read = checkpoint.read(tensor, state, block.first + line * block.line_step,
                                    out.subspan(static_cast<std::size_t>(line) * length, length));
        !read)
      return read;
  return {};
}

// The rows that hold the piece.
Result<void> read_rows(const checkpoint::TensorSource& source, const FlatPiece& piece, const at::Tensor& flat) {
  const std::int64_t width = piece.columns.value_or(1), first_row = piece.first / width;
  const std::int64_t rows = (piece.first + piece.count + width - 1) / width - first_row;
  const at::Tensor host = at::empty({rows * width}, at::kFloat);
  if (auto read = source.read(piece.tensor, TensorSlice{first_row, rows, 0, std::nullopt}, spec::ElementType::float32,
                              bytes_of(host));
      !read)
    return read;
  flat.narrow(0, piece.offset, piece.count).copy_(host.narrow(0, piece.first - first_row * width, piece.count));
  return {};
}

Result<void> read_columns(const checkpoint::TensorSource& source, const FlatPiece& piece, const at::Tensor& flat) {
  for (const ElementBlock& block : blocks_of(piece)) {
    const at::Tensor host = at::empty({block.lines, block.length}, at::kFloat);
    const TensorSlice slice{block.first / piece.rows, block.lines, block.first % piece.rows, block.length};
    if (auto read = source.read(piece.tensor, slice, spec::ElementType::float32, bytes_of(host)); !read) return read;
    view_flat(flat, block).copy_(host);
  }
  return {};
}

}  // namespace

PieceReader reader_of(const checkpoint::TrainingCheckpoint& checkpoint) {
  return [&checkpoint](const FlatPiece& piece, const std::string& state, const at::Tensor& flat) -> Result<void> {
    for (const ElementBlock& block : blocks_of(piece)) {
      const at::Tensor host = at::empty({block.lines, block.length}, at::kFloat);
      const std::span<float> out(host.mutable_data_ptr<float>(), static_cast<std::size_t>(block.count()));
      if (auto read = read_block(checkpoint, piece.tensor, state, block, out); !read) return read;
      view_flat(flat, block).copy_(host);
    }
    return {};
  };
}

PieceReader reader_of(const checkpoint::TensorSource& source) {
  return [&source](const FlatPiece& piece, const std::string& state, const at::Tensor& flat) -> Result<void> {
    if (state != checkpoint::parameter_state) return {};
    return piece.transposed ? read_columns(source, piece, flat) : read_rows(source, piece, flat);
  };
}

}  // namespace muster::train
