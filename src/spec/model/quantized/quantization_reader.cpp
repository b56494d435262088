#include "spec/model/quantized/quantization_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "json/json_text.hpp"
#include "spec/model/config_reader.hpp"
#include "spec/model/quantized/gptq_awq_reader.hpp"

namespace muster::spec {
namespace {

using nlohmann::json;

// What is no list of texts says nothing here: which weights have codes is what the files hold.
std::vector<std::string> read_skipped(ConfigReader& reader) {
  std::vector<std::string> names;
  const json* list = reader.find({"llm_int8_skip_modules"});
  if (list == nullptr || !list->is_array()) return names;
  for (const json& name : *list)
    if (name.is_string()) names.push_back(name.get<std::string>());
  return names;
}

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
    return BitsAndBytesQuantization{packing, read_skipped(reader)};
  }
  const std::string kind = reader.text("bnb_4bit_quant_type", "fp4");
  packing.code = kind == "nf4" ? PackedCode::nf4 : PackedCode::fp4;
  if (kind != "nf4" && kind != "fp4")
    reader.note("bnb_4bit_quant_type", fmt::format("is {}", shown(json(kind))), "accepted: nf4, fp4");
  packing.double_quantized = reader.flag("bnb_4bit_use_double_quant", false);
  return BitsAndBytesQuantization{packing, read_skipped(reader)};
}

// Two sizes from 1 on, where the key is there.
std::optional<ScaleBlock> read_block(ConfigReader& reader, const char* key) {
  const json* sizes = reader.find({key});
  if (sizes == nullptr || sizes->is_null()) return std::nullopt;
  const auto fits = [](const json& size) {
    return size.is_number_unsigned() && size.get<std::uint64_t>() >= 1 && size.get<std::uint64_t>() <= largest_group;
  };
  if (sizes->is_array() && sizes->size() == 2 && fits((*sizes)[0]) && fits((*sizes)[1]))
    return ScaleBlock{(*sizes)[0].get<std::int64_t>(), (*sizes)[1].get<std::int64_t>()};
  reader.note(key, fmt::format("is {}", sizes->is_array() && sizes->size() <= 4 ? sizes->dump() : shown(*sizes)),
              fmt::format("accepted: two whole numbers from 1 to {}", largest_group));
  return std::nullopt;
}

CheckpointQuantization read_float8(ConfigReader& reader) {
  const std::string kind = reader.text("fmt", "e4m3");
  if (kind != "e4m3" && kind != "float8_e4m3fn" && kind != "e5m2")
    reader.note("fmt", fmt::format("is {}", shown(json(kind))), "accepted: e4m3, e5m2");
  return Float8Quantization{read_block(reader, "weight_block_size")};
}

// The settings of the weights of a group of modules.
void read_compressed_weights(const json& weights, ConfigReader& reader, std::string_view source,
                             CompressedQuantization& method) {
  using Form = CompressedQuantization::Form;
  using Sharing = CompressedQuantization::Sharing;
  ConfigReader inner(weights, source);
  method.bits = static_cast<int>(inner.whole({"num_bits"}, 8, 8).value_or(8));
  const std::string type = inner.text("type", "int");
  const bool fits = method.form == Form::whole ? type == "int" || (type == "float" && method.bits == 8)
                    : method.form == Form::floating       ? type == "float" && method.bits == 8
                    : method.form == Form::small_floating ? type == "float" && method.bits == 4
                                                          : type == "int";
  if (!fits)
    inner.note("type", fmt::format("is {} of {} bits, which this format does not hold", shown(json(type)), method.bits),
               "accepted: int of 1 to 8 bits, float of 8 bits, and of 4 bits in mxfp4-pack-quantized");
  if (type == "float" && method.form == Form::whole) method.form = Form::floating;
  method.symmetric = inner.flag("symmetric", true);
  const std::string strategy = inner.is_null("strategy") ? "" : inner.text("strategy", "");
  const bool grouped = inner.find({"group_size"}) != nullptr && !inner.is_null("group_size") &&
                       *inner.find({"group_size"}) != -1;
  if (strategy == "group" || (strategy.empty() && grouped)) {
    method.sharing = Sharing::group;
    method.block = {1, inner.whole({"group_size"}, 128, largest_group).value_or(1)};
  } else if (strategy == "channel") {
    method.sharing = Sharing::row;
  } else if (strategy == "tensor" || strategy.empty()) {
    method.sharing = Sharing::tensor;
  } else if (strategy == "block" && method.form != Form::packed) {
    method.sharing = Sharing::block;
    const auto block = read_block(inner, "block_structure");
    if (!block && inner.problems().empty()) inner.note("block_structure", "is missing", "accepted: two whole numbers");
    method.block = block.value_or(ScaleBlock{1, 1});
  } else {
    inner.note("strategy", fmt::format("is {}", shown(json(strategy))), "accepted: tensor, channel, group, block");
  }
  if (method.form == Form::small_floating && (!method.symmetric || method.block != ScaleBlock{1, 32}))
    inner.note("group_size", "is not 32, or weights are not symmetric", "accepted: groups of 32, symmetric");
  for (const Problem& problem : inner.problems()) reader.note(problem.where, problem.what, problem.remedy);
}

void refuse_extras(ConfigReader& reader) {
  for (const char* key : {"sparsity_config", "transform_config"}) {
    const json* extra = reader.find({key});
    if (extra == nullptr || extra->is_null() || extra->empty()) continue;
    if (extra->is_object() && extra->value("format", "") == "dense") continue;
    reader.note(key, "is there: weights of zeros left out, and those that were turned, are not read",
                "use another checkpoint");
  }
  const json* status = reader.find({"quantization_status"});
  if (status != nullptr && !status->is_null() && *status != "compressed")
    reader.note("quantization_status", fmt::format("is {}", shown(*status)), "accepted: compressed");
}

CheckpointQuantization read_compressed(ConfigReader& reader) {
  using Form = CompressedQuantization::Form;
  CompressedQuantization method;
  refuse_extras(reader);
  const std::string format = reader.text("format", "");
  if (format == "pack-quantized")
    method.form = Form::packed;
  else if (format == "int-quantized" || format == "naive-quantized")
    method.form = Form::whole;
  else if (format == "float-quantized")
    method.form = Form::floating;
  else if (format == "mxfp4-pack-quantized")
    method.form = Form::small_floating;
  else
    reader.note("format", fmt::format("is {}, which is not read", shown(json(format))),
                "accepted: pack-quantized, int-quantized, float-quantized, naive-quantized, mxfp4-pack-quantized");
  const json* groups = reader.find({"config_groups"});
  if (groups == nullptr || !groups->is_object() || groups->empty()) {
    reader.note("config_groups", "is missing, or is not an object with groups", "");
    return method;
  }
  const json* weights = nullptr;
  for (const auto& [name, group] : groups->items()) {
    const auto own = group.is_object() ? group.find("weights") : group.end();
    if (!group.is_object() || own == group.end() || !own->is_object()) {
      reader.note("config_groups", fmt::format("has {} without weights", shown(json(name))), "");
      return method;
    }
    if (weights != nullptr && *weights != *own)
      reader.note("config_groups", "has groups whose weights differ: which modules are of which group is not read",
                  "use a checkpoint with one group");
    weights = &*own;
  }
  read_compressed_weights(*weights, reader, "config_groups: weights", method);
  return method;
}

struct MethodRow {
  std::string_view name;
  CheckpointQuantization (*read)(ConfigReader& reader);
};
constexpr std::array methods{
    MethodRow{"bitsandbytes", read_bitsandbytes},
    MethodRow{"fp8", read_float8},
    MethodRow{"compressed-tensors", read_compressed},
    MethodRow{"gptq", read_gptq},
    MethodRow{"awq", read_awq},
};

// Old files of bitsandbytes do not name their method; newer ones of gptqmodel have another key.
std::string method_in(const json& section) {
  for (const char* key : {"quant_method", "method"})
    if (const auto method = section.find(key); method != section.end())
      return method->is_string() ? method->get<std::string>() : shown(*method);
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

Result<CheckpointQuantization> read_quantization(const json& section, std::string_view source, std::string_view key) {
  const std::string name = method_in(section);
  const auto row = std::ranges::find(methods, name, &MethodRow::name);
  if (row == methods.end()) return unknown_method(name, source);
  const std::string place = key.empty() ? std::string(source) : fmt::format("{}: {}", source, key);
  ConfigReader reader(section, place);
  CheckpointQuantization read = row->read(reader);
  if (!reader.problems().empty()) return to_error(reader.problems());
  return read;
}

}  // namespace muster::spec
