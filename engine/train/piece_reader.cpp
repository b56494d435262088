#include "train/piece_reader.hpp"

#include <algorithm>
#include <memory>

#include "tensor/host_memory.hpp"
#include "train/element_blocks.hpp"

namespace muster::train {
namespace {

using checkpoint::TensorSlice;
using parallel::FlatPiece;

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

// What numbers go through on their way to a device: the same memory again and again, since new pages cost as much time
// as reading does.
class Room {
 public:
  static constexpr std::int64_t at_once = 1 << 24;  // numbers

  at::Tensor take(std::int64_t count, at::Device device, at::ScalarType type = at::kFloat) {
    if (!memory_.defined() || memory_.numel() < count || device != device_) {
      memory_.reset();
      memory_ = tensor::host_tensor(device, std::max(count, at_once), at::kFloat);
      device_ = device;
    }
    return memory_.view(type).narrow(0, 0, count);
  }

 private:
  at::Tensor memory_;
  at::Device device_ = at::kCPU;
};

// The rows that hold the piece, some at a time.
Result<void> read_rows(const checkpoint::TensorSource& source, const FlatPiece& piece, const at::Tensor& flat,
                       Room& room) {
  const std::int64_t width = piece.columns.value_or(1), end = piece.first + piece.count;
  const std::int64_t last_row = (end + width - 1) / width,
                     rows_at_once = std::max<std::int64_t>(Room::at_once / width, 1);
  for (std::int64_t row = piece.first / width; row < last_row; row += rows_at_once) {
    const std::int64_t rows = std::min(rows_at_once, last_row - row);
    const at::Tensor host = room.take(rows * width, flat.device());
    if (auto read = source.read(piece.tensor, TensorSlice{row, rows, 0, std::nullopt}, spec::ElementType::float32,
                                bytes_of(host));
        !read)
      return read;
    const std::int64_t first = std::max(piece.first, row * width), count = std::min(end, (row + rows) * width) - first;
    flat.narrow(0, piece.offset + first - piece.first, count).copy_(host.narrow(0, first - row * width, count));
  }
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

at::ScalarType saved_type(const std::string& state) {
  return checkpoint::form_of(state).type == spec::ElementType::uint8 ? at::kByte : at::kFloat;
}

PieceReader reader_of(const checkpoint::TrainingCheckpoint& checkpoint, const std::string& prefix) {
  return [&checkpoint, prefix, room = std::make_shared<Room>()](const FlatPiece& piece, const std::string& state,
                                                        const at::Tensor& flat) -> Result<void> {
    for (std::int64_t done = 0; done < piece.count; done += Room::at_once) {
      const std::int64_t count = std::min(Room::at_once, piece.count - done);
      const at::Tensor host = room->take(count, flat.device(), saved_type(state));
      auto read = checkpoint.read(prefix + piece.tensor, state, piece.first + done, bytes_of(host));
      if (!read) return read;
      flat.narrow(0, piece.offset + done, count).copy_(host);
    }
    return {};
  };
}

PieceReader reader_of(const checkpoint::TensorSource& source) {
  return [&source, room = std::make_shared<Room>()](const FlatPiece& piece, const std::string& state,
                                                    const at::Tensor& flat) -> Result<void> {
    if (state != checkpoint::parameter_state) return {};
    return piece.transposed ? read_columns(source, piece, flat) : read_rows(source, piece, flat, *room);
  };
}

}  // namespace muster::train
