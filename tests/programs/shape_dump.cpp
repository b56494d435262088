// What muster makes of models, one JSON object a line: shape_dump [--dtype TYPE] MODEL... A model that is refused gives
// {"error": "…"}.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "spec/model/model_source.hpp"

namespace muster::spec {
namespace {

using nlohmann::json;

std::string_view word(TensorKind kind) {
  switch (kind) {
    case TensorKind::parameter:
      return "parameter";
    case TensorKind::buffer:
      return "buffer";
    case TensorKind::derived:
      return "derived";
  }
  return {};
}

json modules_of(const ModelShape& shape) {
  json rows = json::array();
  for (std::size_t i = 0; i < shape.modules.size(); ++i)
    rows.push_back({shape.path(ModuleId{i}), shape.modules[i].class_name});
  return rows;
}

json tensors_of(const ModelShape& shape) {
  json rows = json::array();
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    const TensorShape& tensor = shape.tensors[i];
    rows.push_back({{"path", shape.path(TensorId{i})},
                    {"sizes", tensor.dimensions.span()},
                    {"type", name(tensor.type)},
                    {"kind", word(tensor.kind)}});
    if (tensor.same_as) rows.back()["same_as"] = shape.path(*tensor.same_as);
  }
  return rows;
}

json config_of(const ModelConfig& config) {
  json row{{"family", name(config.family)},
           {"vocabulary", config.vocabulary},
           {"hidden", config.hidden},
           {"intermediate", config.intermediate},
           {"layers", config.layers},
           {"heads", config.heads},
           {"kv_heads", config.kv_heads},
           {"head_size", config.head_size},
           {"positions", config.positions},
           {"tied", config.tied},
           {"dtype", nullptr},
           {"sliding_window", nullptr},
           {"sliding_layers", config.sliding_layers},
           {"dropout", {config.dropout.embedding, config.dropout.attention, config.dropout.residual}}};
  if (config.dtype) row["dtype"] = name(*config.dtype);
  if (config.sliding_window) row["sliding_window"] = *config.sliding_window;
  return row;
}

json dump(const std::string& model, std::optional<ElementType> dtype) {
  const auto read = read_model(model, model_search_from_environment(), dtype);
  if (!read) return {{"error", to_string(read.error())}};
  json row{{"config", config_of(read->config)},
           {"modules", modules_of(read->shape)},
           {"tensors", tensors_of(read->shape)},
           {"whole_classes", read->shape.whole_classes},
           {"parameters", read->shape.parameter_count()},
           {"dtype", name(read->dtype)},
           {"checkpoint_bytes", nullptr},
           {"notes", read->notes}};
  if (read->checkpoint_bytes) row["checkpoint_bytes"] = *read->checkpoint_bytes;
  return row;
}

std::optional<ElementType> type_named(std::string_view word) {
  for (const ElementType type :
       {ElementType::float64, ElementType::float32, ElementType::float16, ElementType::bfloat16})
    if (name(type) == word) return type;
  return std::nullopt;
}

}  // namespace
}  // namespace muster::spec

int main(int argc, char** argv) {
  std::optional<muster::spec::ElementType> dtype;
  int first = 1;
  if (argc > 2 && std::string_view(argv[1]) == "--dtype") {
    dtype = muster::spec::type_named(argv[2]);
    if (!dtype) return 2;
    first = 3;
  }
  for (int i = first; i < argc; ++i) fmt::print("{}\n", muster::spec::dump(argv[i], dtype).dump());
  return 0;
}
