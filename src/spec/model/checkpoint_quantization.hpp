// How the weights of a checkpoint were quantised, as config.json's quantization_config says.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "spec/weight_packing.hpp"

namespace muster::spec {

// What most matrices are; the files say it again for each, and theirs counts.
struct BitsAndBytesQuantization {
  WeightPacking packing;
  bool operator==(const BitsAndBytesQuantization&) const = default;
};

// Rows and columns of elements that share a scale.
struct ScaleBlock {
  std::int64_t rows = 0, columns = 0;
  bool operator==(const ScaleBlock&) const = default;
};

// Numbers of 8 bits with an exponent, times the scale of their tensor, row or block.
struct Float8Quantization {
  std::optional<ScaleBlock> block;
  bool operator==(const Float8Quantization&) const = default;
};

// What the compressed-tensors package writes.
struct CompressedQuantization {
  enum class Form { packed, whole, floating };  // whole numbers in words of 32 bits, or in bytes; 8-bit floats
  enum class Sharing { tensor, row, group, block };  // of scales
  Form form = Form::packed;
  int bits = 4;
  Sharing sharing = Sharing::group;
  ScaleBlock block;  // of groups: one row
  bool symmetric = true;
  bool operator==(const CompressedQuantization&) const = default;
};

using CheckpointQuantization = std::variant<BitsAndBytesQuantization, Float8Quantization, CompressedQuantization>;

// "bitsandbytes", "fp8": config.json's quant_method.
std::string_view method_name(const CheckpointQuantization& quantization);

}  // namespace muster::spec
