// GGUF's blocks of packed numbers as floats.
#pragma once

#include <cstddef>
#include <span>

#include "spec/model/gguf_header.hpp"

namespace muster::checkpoint {

// Unpacks whole blocks: in holds a multiple of block_of(type).bytes, out as many elements as they have. The floats are
// bit by bit those of the format's reference implementation in Python.
void dequantize(spec::GgufType type, std::span<const std::byte> in, std::span<float> out);

}  // namespace muster::checkpoint
