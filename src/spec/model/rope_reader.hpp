// The rotary embedding's settings from config.json.
#pragma once

#include "spec/model/config_reader.hpp"
#include "spec/model/model_config.hpp"

namespace muster::spec {

// Both spellings (rope_parameters; rope_scaling and rope_theta). config.positions and config.head_size are known
// already. Errors are noted in reader.
void read_rope(ConfigReader& reader, ModelConfig& config);

}  // namespace muster::spec
