// Zero points of GPTQ's first format that programs read differently.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "spec/model/quantized/checkpoint_quantization.hpp"
#include "spec/model/safetensors_header.hpp"

namespace muster::spec {

// That format holds a zero point less one, so that a zero point of 0 becomes all ones. AutoGPTQ's writer spoils those
// above it in the same word when it does this, and its readers take all ones for 0 or for 2^bits. Whether the first
// megabyte of the files' zero points has one, which only asymmetric weights can have.
Result<bool> has_doubtful_zero_points(const GptqQuantization& method, const std::vector<CheckpointFile>& files);

}  // namespace muster::spec
