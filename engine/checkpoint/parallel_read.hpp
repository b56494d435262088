// Many tensors at once, by several threads.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/tensor_source.hpp"

namespace muster::checkpoint {

// One call of TensorSource::read.
struct TensorRead {
  std::string name;
  TensorSlice slice;
  spec::ElementType as = spec::ElementType::float32;
  std::span<std::byte> out;
};

// All of them; large ones are split by rows, so that no thread waits for another's last tensor. The first failure ends
// it and is returned. threads: at least 1; this thread is one of them.
Result<void> read_tensors(const TensorSource& source, std::span<const TensorRead> reads, int threads);

}  // namespace muster::checkpoint
