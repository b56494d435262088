// quantization_config of config.json, as bitsandbytes' checkpoints have it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "spec/element_type.hpp"
#include "spec/weight_packing.hpp"

namespace muster::convert {

// What transformers reads, key for key. compute: the type that weights of 4 bits are computed in. skipped: absent:
// transformers' own rule of what stays wide. spec::read_quantization gives the same packing back.
nlohmann::ordered_json quantization_config(const spec::WeightPacking& packing, spec::ElementType compute,
                                           const std::optional<std::vector<std::string>>& skipped);

}  // namespace muster::convert
