// How the weights of a checkpoint were quantised, as config.json's quantization_config says.
#pragma once

#include <string_view>
#include <variant>

#include "spec/weight_packing.hpp"

namespace muster::spec {

// What most matrices are; the files say it again for each, and theirs counts.
struct BitsAndBytesQuantization {
  WeightPacking packing;
  bool operator==(const BitsAndBytesQuantization&) const = default;
};

using CheckpointQuantization = std::variant<BitsAndBytesQuantization>;

// "bitsandbytes": config.json's quant_method.
std::string_view method_name(const CheckpointQuantization& quantization);

}  // namespace muster::spec
