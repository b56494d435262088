#include "spec/check_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "spec/codec.hpp"

namespace muster::spec {
namespace {

enum class Part { four_bits, packing, adapters };

// A setting that says nothing unless the switches of its part are on.
struct Detail {
  std::string key;
  Part part;
};
const std::vector<Detail>& details() {
  static const std::vector<Detail> table{
      {"model.bnb_4bit_quant_type", Part::four_bits},
      {"model.bnb_4bit_use_double_quant", Part::four_bits},
      {"model.bnb_4bit_compute_dtype", Part::four_bits},
      {"model.llm_int8_skip_modules", Part::packing},
      {"model.llm_int8_enable_fp32_cpu_offload", Part::packing},
      {"model.lora_r", Part::adapters},
      {"model.lora_alpha", Part::adapters},
      {"model.lora_dropout", Part::adapters},
      {"model.lora_target_modules", Part::adapters},
      {"model.lora_exclude_modules", Part::adapters},
      {"model.use_rslora", Part::adapters},
      {"model.use_dora", Part::adapters},
      {"model.modules_to_save", Part::adapters},
  };
  return table;
}

const std::string four = "model.load_in_4bit", eight = "model.load_in_8bit", lora = "model.use_lora";

std::vector<std::string> switches(Part part) {
  if (part == Part::four_bits) return {four};
  if (part == Part::packing) return {four, eight};
  return {lora};
}

bool is_on(Part part, const ModelSpec& model) {
  if (part == Part::four_bits) return model.load_in_4bit;
  if (part == Part::packing) return model.load_in_4bit || model.load_in_8bit;
  return model.use_lora;
}

Origin::Kind kind_of(const ResolvedSpec& resolved, const std::string& key) {
  const auto found = resolved.origins.find(key);
  return found == resolved.origins.end() ? Origin::Kind::built_in : found->second.kind;
}

bool is_built_in(const Schema& schema, const ResolvedSpec& resolved, const std::string& key) {
  const Field& field = *schema.find(key);
  return field.write(resolved.spec) == field.fallback;
}

}  // namespace

void settle_model_precedence(const Schema& schema, const ResolvedSpec& resolved, const Overrule& overrule) {
  const ModelSpec& model = resolved.spec.model;
  std::optional<std::string> winner;
  if (model.load_in_4bit && model.load_in_8bit && kind_of(resolved, four) != kind_of(resolved, eight)) {
    winner = kind_of(resolved, four) > kind_of(resolved, eight) ? four : eight;
    overrule(*winner == four ? eight : four, *winner);
  }
  for (const Detail& detail : details()) {
    if (is_on(detail.part, model) || is_built_in(schema, resolved, detail.key)) continue;
    std::vector<std::string> off = switches(detail.part);
    if (winner && detail.part == Part::four_bits) off = {*winner};
    // A file that switches adapters off keeps what they would be like: guide 0's do.
    const auto overrules = [&](const std::string& key) {
      const Origin::Kind kind = kind_of(resolved, key);
      const bool same_file = key == lora && kind == Origin::Kind::file && kind == kind_of(resolved, detail.key);
      return kind > kind_of(resolved, detail.key) || same_file;
    };
    const auto higher = std::ranges::find_if(off, overrules);
    if (higher != off.end()) overrule(detail.key, *higher);
  }
}

void find_model_contradictions(const Schema& schema, const ResolvedSpec& resolved, const Report& report) {
  const ModelSpec& model = resolved.spec.model;
  if (model.load_in_4bit && model.load_in_8bit)
    report(four, "is true, and so is model.load_in_8bit", "keep one of the two");
  for (const Detail& detail : details()) {
    if (is_on(detail.part, model) || is_built_in(schema, resolved, detail.key)) continue;
    const std::vector<std::string> off = switches(detail.part);
    const std::string& first = off.front();
    report(detail.key,
           fmt::format("is {}, but {} {} false", schema.find(detail.key)->write(resolved.spec), join(off, " and "),
                       off.size() == 1 ? "is" : "are"),
           fmt::format("set {}: true, or leave {} out", first, detail.key));
  }
  const DataType computed = model.bnb_4bit_compute_dtype;
  if (computed != DataType::automatic && model.dtype != DataType::automatic && computed != model.dtype)
    report("model.bnb_4bit_compute_dtype",
           fmt::format("is {}, but model.dtype is {}: a model is computed in one type", write(computed),
                       write(model.dtype)),
           "keep one of the two");
  const auto is_all = [](const std::string& name) { return to_lower(name) == "all-linear"; };
  if (model.lora_target_modules.size() > 1 && std::ranges::any_of(model.lora_target_modules, is_all))
    report("model.lora_target_modules", "names all-linear among other modules",
           "all-linear is every linear layer but the output head: write it alone");
}

}  // namespace muster::spec
