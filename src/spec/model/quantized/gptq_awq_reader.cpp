#include "spec/model/quantized/gptq_awq_reader.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "json/json_text.hpp"

namespace muster::spec {
namespace {

using nlohmann::json;

bool is_there(ConfigReader& reader, const char* key) {
  const json* value = reader.find({key});
  return value != nullptr && !value->is_null();
}

// -1 and null: all inputs of an output.
std::optional<std::int64_t> read_group(ConfigReader& reader) {
  const json* size = reader.find({"group_size", "q_group_size"});
  if (size == nullptr) return 128;
  if (size->is_null() || *size == -1) return std::nullopt;
  if (size->is_number_unsigned() && size->get<std::uint64_t>() >= 1 && size->get<std::uint64_t>() <= largest_group)
    return size->get<std::int64_t>();
  reader.note("group_size", fmt::format("is {}", shown(*size)),
              fmt::format("accepted: a whole number from 1 to {}, or -1", largest_group));
  return std::nullopt;
}

// The word under the first of the keys that is there.
std::string first_text(ConfigReader& reader, std::initializer_list<const char*> keys, std::string_view fallback) {
  for (const char* key : keys)
    if (is_there(reader, key)) return to_lower(reader.text(key, fallback));
  return std::string(fallback);
}

// What other writers of these formats add to them.
void refuse_variants(ConfigReader& reader) {
  if (is_there(reader, "pack_dtype") && reader.text("pack_dtype", "int32") != "int32")
    reader.note("pack_dtype", fmt::format("is {}", shown(*reader.find({"pack_dtype"}))), "accepted: int32");
  for (const char* key : {"dynamic", "rotation", "adapter"}) {
    const json* value = reader.find({key});
    if (value == nullptr || value->is_null() || *value == false || (value->is_structured() && value->empty())) continue;
    reader.note(key, "is there: what it changes for some modules or all of them is not read", "use another checkpoint");
  }
}

}  // namespace

CheckpointQuantization read_gptq(ConfigReader& reader) {
  GptqQuantization method;
  const std::int64_t bits = reader.whole({"bits", "w_bit"}, 4, 8).value_or(4);
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
    reader.note("bits", fmt::format("is {}", bits), "accepted: 2, 3, 4, 8");
  method.bits = static_cast<int>(bits);
  method.group = read_group(reader);
  method.symmetric = reader.flag("sym", true);
  method.ordered = reader.flag("desc_act", false);
  const char* key = is_there(reader, "checkpoint_format") ? "checkpoint_format" : "format";
  std::string format = first_text(reader, {key}, "gptq");
  if (is_there(reader, "is_marlin_format") && reader.flag("is_marlin_format", false)) format = "marlin";
  if (format != "gptq" && format != "gptq_v2")
    reader.note(key, fmt::format("is {}, which is not read", shown(json(format))), "accepted: gptq, gptq_v2");
  method.zeros_less_one = format == "gptq";
  refuse_variants(reader);
  return method;
}

CheckpointQuantization read_awq(ConfigReader& reader) {
  AwqQuantization method;
  if (const auto bits = reader.whole({"bits", "w_bit"}, 4, 8); bits && *bits != 4)
    reader.note("bits", fmt::format("is {}", *bits), "accepted: 4");
  method.group = read_group(reader);
  const std::string version = first_text(reader, {"version", "checkpoint_format", "format"}, "gemm");
  if (version != "gemm" && version != "gemv")
    reader.note("version", fmt::format("is {}, which is not read", shown(json(version))), "accepted: gemm, gemv");
  method.layout = version == "gemv" ? AwqQuantization::Layout::by_outputs : AwqQuantization::Layout::by_inputs;
  static_cast<void>(reader.flag("zero_point", true));  // zero points are in the files either way
  refuse_variants(reader);
  return method;
}

}  // namespace muster::spec
