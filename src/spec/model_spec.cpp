#include <algorithm>

#include "base/text.hpp"
#include "spec/run_spec.hpp"

namespace muster::spec {
namespace {

// PEFT's word for every linear layer but the head, which is what naming none means here.
bool means_all(const std::vector<std::string>& targets) {
  return targets.size() == 1 && to_lower(targets.front()) == "all-linear";
}

}  // namespace

std::optional<WeightPacking> ModelSpec::packing() const {
  if (load_in_8bit) return WeightPacking{.code = PackedCode::int8};
  if (!load_in_4bit) return std::nullopt;
  WeightPacking packing;
  packing.code = bnb_4bit_quant_type == FourBitCode::nf4 ? PackedCode::nf4 : PackedCode::fp4;
  packing.double_quantized = bnb_4bit_use_double_quant;
  return packing;
}

std::optional<WeightOptions> ModelSpec::weight_options() const {
  const std::optional<WeightPacking> codes = packing();
  if (!codes) return std::nullopt;
  return WeightOptions{*codes, llm_int8_skip_modules.value_or(std::vector<std::string>())};
}

std::optional<AdapterOptions> ModelSpec::adapters() const {
  if (!use_lora) return std::nullopt;
  AdapterOptions options;
  options.rank = lora_r;
  options.alpha = lora_alpha;
  options.dropout = lora_dropout;
  options.rank_stabilized = use_rslora;
  if (!means_all(lora_target_modules)) options.targets = lora_target_modules;
  options.excluded = lora_exclude_modules;
  options.weight_decomposed = use_dora;
  options.saved_modules = modules_to_save;
  return options;
}

DataType ModelSpec::computed_type() const { return dtype == DataType::automatic ? bnb_4bit_compute_dtype : dtype; }

}  // namespace muster::spec
