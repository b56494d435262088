#include "spec/model/quantization_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "json/json_text.hpp"
#include "spec/model/config_reader.hpp"

namespace muster::spec {
namespace {

using nlohmann::json;

CheckpointQuantization read_bitsandbytes(ConfigReader& reader) {
  const auto is_true = [&](ConfigReader::Keys spellings) {
    const json* value = reader.find(spellings);
    return value != nullptr && *value == true;
  };
  const bool four = is_true({"load_in_4bit", "_load_in_4bit"}), eight = is_true({"load_in_8bit", "_load_in_8bit"});
  if (four == eight)
    reader.note("load_in_4bit", fmt::format("and load_in_8bit are {} true", four ? "both" : "not"),
                "accepted: one of them");
  WeightPacking packing;
  if (eight) {
    packing.code = PackedCode::int8;
    return BitsAndBytesQuantization{packing};
  }
  const std::string kind = reader.text("bnb_4bit_quant_type", "fp4");
  packing.code = kind == "nf4" ? PackedCode::nf4 : PackedCode::fp4;
  if (kind != "nf4" && kind != "fp4")
    reader.note("bnb_4bit_quant_type", fmt::format("is {}", shown(json(kind))), "accepted: nf4, fp4");
  packing.double_quantized = reader.flag("bnb_4bit_use_double_quant", false);
  return BitsAndBytesQuantization{packing};
}

struct MethodRow {
  std::string_view name;
  CheckpointQuantization (*read)(ConfigReader& reader);
};
constexpr std::array methods{
    MethodRow{"bitsandbytes", read_bitsandbytes},
};

// Old files of bitsandbytes do not name their method.
std::string method_in(const json& section) {
  const auto method = section.find("quant_method");
  if (method != section.end()) return method->is_string() ? method->get<std::string>() : shown(*method);
  const bool old_spelling = section.contains("load_in_8bit") || section.contains("load_in_4bit");
  return old_spelling ? "bitsandbytes" : "a method without a name";
}

Error unknown_method(const std::string& name, std::string_view source) {
  std::vector<std::string> known;
  for (const MethodRow& row : methods) known.emplace_back(row.name);
  return {Error::Kind::refused,
          fmt::format("{}: the checkpoint is quantised by {}, which is not read", source, shown(json(name))),
          fmt::format("use the checkpoint that was not quantised, or one by {}", join(known, ", "))};
}

}  // namespace

std::string_view method_name(const CheckpointQuantization& quantization) { return methods[quantization.index()].name; }

Result<CheckpointQuantization> read_quantization(const json& section, std::string_view source) {
  const std::string name = method_in(section);
  const auto row = std::ranges::find(methods, name, &MethodRow::name);
  if (row == methods.end()) return unknown_method(name, source);
  const std::string place = fmt::format("{}: quantization_config", source);
  ConfigReader reader(section, place);
  CheckpointQuantization read = row->read(reader);
  if (!reader.problems().empty()) return to_error(reader.problems());
  return read;
}

}  // namespace muster::spec
