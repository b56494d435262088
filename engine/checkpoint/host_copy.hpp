// The numbers that one rank saves, in the host's memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "checkpoint/logical_tensor.hpp"

namespace muster::checkpoint {

// Pieces that lie one after the other, so that they go to the disk as they are: floats before bytes, so that each
// begins at a multiple of its numbers' size. Made once and refilled for every save: fresh memory for each would cost
// more than the copy.
class HostCopy {
 public:
  // Memory of its own, with nothing in it yet.
  explicit HostCopy(std::vector<Piece> pieces)
      : HostCopy(pieces, std::make_unique_for_overwrite<float[]>(floats_for(pieces))) {}
  // memory: of floats_for the pieces; page-locked memory of a GPU, say.
  HostCopy(std::vector<Piece> pieces, std::shared_ptr<float[]> memory)
      : pieces_(std::move(pieces)), memory_(std::move(memory)) {
    std::ranges::stable_partition(pieces_, [](const Piece& piece) { return is_float(piece); });
    starts_.reserve(pieces_.size());
    for (const Piece& piece : pieces_) {
      starts_.push_back(size_);
      size_ += static_cast<std::size_t>(piece.bytes());
    }
  }
  // How many floats have room for all of them.
  static std::size_t floats_for(std::span<const Piece> pieces) {
    return (static_cast<std::size_t>(byte_count(pieces)) + sizeof(float) - 1) / sizeof(float);
  }

  std::span<const Piece> pieces() const { return pieces_; }
  // For a piece of any state.
  std::span<std::byte> bytes(std::size_t piece) { return writable().subspan(starts_[piece], size_of(piece)); }
  std::span<const std::byte> bytes(std::size_t piece) const { return all().subspan(starts_[piece], size_of(piece)); }
  // For a piece of float32 numbers.
  std::span<float> numbers(std::size_t piece) {
    if (!is_float(pieces_[piece])) throw std::logic_error("bytes of a checkpoint taken for numbers");
    return {memory_.get() + starts_[piece] / sizeof(float), static_cast<std::size_t>(pieces_[piece].count)};
  }
  std::span<const std::byte> all() const { return writable(); }

 private:
  static bool is_float(const Piece& piece) { return form_of(piece.state).type == spec::ElementType::float32; }
  std::size_t size_of(std::size_t piece) const { return static_cast<std::size_t>(pieces_[piece].bytes()); }
  std::span<std::byte> writable() const { return {reinterpret_cast<std::byte*>(memory_.get()), size_}; }

  std::vector<Piece> pieces_;
  std::shared_ptr<float[]> memory_;
  std::vector<std::size_t> starts_;  // parallel to the pieces; in bytes
  std::size_t size_ = 0;
};

}  // namespace muster::checkpoint
