// Weights of a checkpoint in 8 or 4 bits, slice by slice.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "checkpoint/checkpoint_writer.hpp"
#include "checkpoint/tensor_source.hpp"
#include "convert/bitsandbytes_parts.hpp"
#include "kernels/thread_team.hpp"

namespace muster::convert {

class WeightCoder {
 public:
  // advance: called with bytes of numbers that are coded. Source and writer outlive the coder.
  WeightCoder(const checkpoint::TensorSource& source, checkpoint::CheckpointWriter& writer, int threads,
              std::function<void(std::size_t bytes)> advance)
      : source_(source), writer_(writer), team_(threads), advance_(std::move(advance)) {}

  // All parts of it. Refused: a weight with a number that is not finite. No more than a slice of its numbers is held,
  // beside its scales.
  Result<void> code(const CodedWeight& weight);

 private:
  Result<void> code_slice(const CodedWeight& weight, std::int64_t first, std::int64_t rows,
                          std::span<float> magnitudes);
  Result<void> read_rows(const CodedWeight& weight, std::int64_t first, std::int64_t rows);
  Result<void> write_four_bit_scales(const CodedWeight& weight, std::span<const float> magnitudes);

  const checkpoint::TensorSource& source_;
  checkpoint::CheckpointWriter& writer_;
  kernels::ThreadTeam team_;
  std::function<void(std::size_t bytes)> advance_;
  std::vector<std::byte> rows_, band_;  // of the slice; band_: as the source has it where that is transposed
  std::vector<std::uint8_t> codes_;
};

}  // namespace muster::convert
