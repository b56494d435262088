#include "convert/quantization_config.hpp"

namespace muster::convert {

nlohmann::ordered_json quantization_config(const spec::WeightPacking& packing, spec::ElementType compute,
                                           const std::optional<std::vector<std::string>>& skipped) {
  const bool four = packing.bits() == 4;
  nlohmann::ordered_json section{
      {"_load_in_4bit", four},
      {"_load_in_8bit", !four},
      {"bnb_4bit_compute_dtype", spec::name(compute)},
      {"bnb_4bit_quant_storage", "uint8"},
      {"bnb_4bit_quant_type", packing.code == spec::PackedCode::nf4 ? "nf4" : "fp4"},
      {"bnb_4bit_use_double_quant", packing.double_quantized},
      {"llm_int8_enable_fp32_cpu_offload", false},
      {"llm_int8_has_fp16_weight", false},
      {"llm_int8_skip_modules", nullptr},
      {"llm_int8_threshold", 6.0},
      {"load_in_4bit", four},
      {"load_in_8bit", !four},
      {"quant_method", "bitsandbytes"},
  };
  if (skipped) section["llm_int8_skip_modules"] = *skipped;
  return section;
}

}  // namespace muster::convert
