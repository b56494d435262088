// config.json's quantization_config.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.hpp"
#include "spec/model/quantized/checkpoint_quantization.hpp"

namespace muster::spec {

// section: the object under that key; without a key, a whole file. source names the file in messages. A method or a
// variant of one that is not read is refused by name; every wrong key is reported.
Result<CheckpointQuantization> read_quantization(const nlohmann::json& section, std::string_view source,
                                                 std::string_view key = "quantization_config");

}  // namespace muster::spec
