// Settings of quantised weights in a file of their own beside config.json, where older programs wrote them.
#pragma once

#include <filesystem>
#include <optional>

#include "base/result.hpp"
#include "spec/model/quantized/checkpoint_quantization.hpp"

namespace muster::spec {

// AutoGPTQ's quantize_config.json, AutoAWQ's quant_config.json; nothing where the folder has neither.
Result<std::optional<CheckpointQuantization>> read_quantization_beside(const std::filesystem::path& folder);

}  // namespace muster::spec
