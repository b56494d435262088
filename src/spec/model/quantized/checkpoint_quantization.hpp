// How the weights of a checkpoint were quantised, as config.json's quantization_config says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spec/weight_packing.hpp"

namespace muster::spec {

// What most matrices are; the files say it again for each, and theirs counts.
struct BitsAndBytesQuantization {
  WeightPacking packing;
  std::vector<std::string> skipped = {};  // modules that were left as they are, beside the head
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
  // Whole numbers in words of 32 bits, or in bytes; floats of 8 bits, or of 4 with powers of two as scales.
  enum class Form { packed, whole, floating, small_floating };
  enum class Sharing { tensor, row, group, block };  // of scales
  Form form = Form::packed;
  int bits = 4;
  Sharing sharing = Sharing::group;
  ScaleBlock block;  // of groups: one row
  bool symmetric = true;
  bool operator==(const CompressedQuantization&) const = default;
};

// What GPTQ's programs write: codes of a column for each output, and a scale and a zero point for each group of inputs.
struct GptqQuantization {
  int bits = 4;
  std::optional<std::int64_t> group;  // inputs; absent: all of them
  bool zeros_less_one = true;         // files hold zero points less one, as the first version of the format has them
  bool symmetric = true;              // all zero points are in the middle
  bool ordered = false;               // which group an input belongs to is in the files: they are not in a row
  bool operator==(const GptqQuantization&) const = default;
};

// What AWQ's programs write, in 4 bits.
struct AwqQuantization {
  enum class Layout { by_inputs, by_outputs };  // a row for each; AWQ calls them gemm and gemv
  Layout layout = Layout::by_inputs;
  std::optional<std::int64_t> group;
  bool operator==(const AwqQuantization&) const = default;
};

using CheckpointQuantization = std::variant<BitsAndBytesQuantization, Float8Quantization, CompressedQuantization,
                                            GptqQuantization, AwqQuantization>;

// "bitsandbytes", "fp8": config.json's quant_method.
std::string_view method_name(const CheckpointQuantization& quantization);

}  // namespace muster::spec
