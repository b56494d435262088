// The numbers that one rank saves, in the host's memory.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/logical_tensor.hpp"

namespace muster::checkpoint {

// Pieces that lie one after the other, so that they go to the disk as they are. Made once and refilled for every
// save: fresh memory for each would cost more than the copy.
class HostCopy {
 public:
  // Memory of its own, with nothing in it yet.
  explicit HostCopy(std::vector<Piece> pieces)
      : HostCopy(pieces, std::make_unique_for_overwrite<float[]>(size_of(pieces))) {}
  // memory: room for all elements of the pieces; page-locked memory of a GPU, say.
  HostCopy(std::vector<Piece> pieces, std::shared_ptr<float[]> memory)
      : pieces_(std::move(pieces)), memory_(std::move(memory)) {
    starts_.reserve(pieces_.size());
    for (const Piece& piece : pieces_) {
      starts_.push_back(size_);
      size_ += static_cast<std::size_t>(piece.count);
    }
  }

  std::span<const Piece> pieces() const { return pieces_; }
  std::span<float> numbers(std::size_t piece) {
    return {memory_.get() + starts_[piece], static_cast<std::size_t>(pieces_[piece].count)};
  }
  std::span<const float> numbers(std::size_t piece) const {
    return {memory_.get() + starts_[piece], static_cast<std::size_t>(pieces_[piece].count)};
  }
  std::span<float> all() { return {memory_.get(), size_}; }
  std::span<const float> all() const { return {memory_.get(), size_}; }

 private:
  static std::size_t size_of(std::span<const Piece> pieces) { return static_cast<std::size_t>(element_count(pieces)); }

  std::vector<Piece> pieces_;
  std::shared_ptr<float[]> memory_;
  std::vector<std::size_t> starts_;  // parallel to the pieces
  std::size_t size_ = 0;
};

}  // namespace muster::checkpoint
