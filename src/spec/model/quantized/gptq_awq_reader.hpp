// The settings of GPTQ and AWQ in a quantization_config.
#pragma once

#include "spec/model/quantized/checkpoint_quantization.hpp"
#include "spec/model/config_reader.hpp"

namespace muster::spec {

constexpr std::uint64_t largest_group = 1 << 20;  // of inputs that share a scale

// What is not read is noted.
CheckpointQuantization read_gptq(ConfigReader& reader);
CheckpointQuantization read_awq(ConfigReader& reader);

}  // namespace muster::spec
