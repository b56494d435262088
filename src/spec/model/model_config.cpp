#include "spec/model/model_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "spec/model/config_reader.hpp"
#include "json/json_text.hpp"
#include "spec/model/families.hpp"
#include "spec/model/quantized/quantization_reader.hpp"
#include "spec/model/rope_reader.hpp"

namespace muster::spec {
namespace {

using nlohmann::json;
using Whole = std::optional<std::int64_t>;

struct DtypeWord {
  std::string_view word;
  ElementType type;
};
constexpr std::array dtype_words{
    DtypeWord{"float64", ElementType::float64},    DtypeWord{"double", ElementType::float64},
    DtypeWord{"float32", ElementType::float32},    DtypeWord{"float", ElementType::float32},
    DtypeWord{"float16", ElementType::float16},    DtypeWord{"half", ElementType::float16},
    DtypeWord{"bfloat16", ElementType::bfloat16},  DtypeWord{"float8_e4m3fn", ElementType::float8},
    DtypeWord{"float8_e5m2", ElementType::float8_e5m2},
};

// The window of every family that has one. transformers ignores it where use_sliding_window is false.
constexpr std::int64_t default_window = 4096;
constexpr std::int64_t default_first_sliding_layer = 28;

void read_dtype(ConfigReader& reader, ModelConfig& config) {
  const char* key = "dtype";
  const json* value = reader.find({"dtype"});
  if (value == nullptr || value->is_null()) value = reader.find({key = "torch_dtype"});
  if (value == nullptr || value->is_null()) return;
  const auto word = value->is_string()
                        ? std::ranges::find(dtype_words, value->get_ref<const std::string&>(), &DtypeWord::word)
                        : dtype_words.end();
  if (word == dtype_words.end())
    reader.note(key, fmt::format("is {}", shown(*value)),
                "accepted: float32, float16, bfloat16, float64, float8_e4m3fn");
  else
    config.dtype = word->type;
}

void read_activation(ConfigReader& reader, const char* key, ModelConfig& config) {
  const std::string word = reader.text(key, name(config.activation));
  const auto activation = activation_named(word);
  if (activation) {
    config.activation = *activation;
    return;
  }
  const auto near = nearest(word, activation_names());
  reader.note(key, fmt::format("is {}", shown(json(word))),
              near ? fmt::format("do you mean {}?", *near) : fmt::format("known: {}", join(activation_names(), ", ")));
}

Result<void> take_quantization(ConfigReader& reader, std::string_view source, ModelConfig& config) {
  const json* section = reader.find({"quantization_config"});
  if (section == nullptr || section->is_null()) return {};
  if (!section->is_object()) {
    reader.note("quantization_config", fmt::format("is {}", shown(*section)), "accepted: an object");
    return {};
  }
  const auto read = read_quantization(*section, source);
  if (!read) return read.error();
  config.quantization = *read;
  return {};
}

// transformers counts the labels' names, and without any takes two.
std::int64_t read_labels(ConfigReader& reader) {
  constexpr std::int64_t usual = 2;
  const json* names = reader.find({"id2label"});
  if (names == nullptr || names->is_null()) return reader.whole({"num_labels"}, usual, largest::labels).value_or(usual);
  if (!names->is_object() || names->empty()) {
    reader.note("id2label", fmt::format("is {}", shown(*names)), R"(accepted: a name for each label, as in {"0": "score"})");
    return usual;
  }
  return static_cast<std::int64_t>(names->size());
}

// Which of the family's models it is.
void read_architectures(ConfigReader& reader, const FamilyRow& family, ModelConfig& config) {
  const json* list = reader.find({"architectures"});
  if (list == nullptr || list->is_null()) return;
  if (!list->is_array()) {
    reader.note("architectures", fmt::format("is {}", shown(*list)), "accepted: a list of names");
    return;
  }
  const std::string of_sequences = architecture(family, ScoreHead{ScoreUse::sequences});
  const std::string of_tokens = architecture(family, ScoreHead{ScoreUse::tokens});
  for (const json& entry : *list) {
    if (entry == of_sequences || entry == of_tokens)
      config.score = ScoreHead{entry == of_tokens ? ScoreUse::tokens : ScoreUse::sequences, read_labels(reader)};
    else if (entry != family.architecture)
      reader.note("architectures",
                  fmt::format("names {}, which is not a causal language model of the family {}", shown(entry), family.name),
                  fmt::format("accepted: \"{}\", or \"{}\"", family.architecture, of_sequences));
  }
}

// Switches that add modules which the families' shapes do not have.
void check_extras(ConfigReader& reader, const FamilyRow& family) {
  for (const char* key : {"text_config", "per_layer_config"})
    if (reader.find({key}) != nullptr && !reader.is_null(key))
      reader.note(key, fmt::format("a {} with it is not known", family.name),
                  "accepted: the configuration of the language model alone");
  if (family.layout == ModelLayout::gpt2 && reader.flag("add_cross_attention", false))
    reader.note("add_cross_attention", "is true: decoders of encoders are not known", "accepted: false");
}

// The layers that slide, for the families that have windows only in some layers.
void read_layer_types(ConfigReader& reader, ModelConfig& config) {
  const Whole first = reader.whole({"max_window_layers"}, default_first_sliding_layer, largest::layers * 1024, 0);
  const json* types = reader.find({"layer_types"});
  const auto layers = static_cast<std::size_t>(config.layers);
  std::vector<bool> sliding(layers);
  if (types == nullptr || types->is_null()) {
    for (std::size_t i = 0; first && i < layers; ++i) sliding[i] = static_cast<std::int64_t>(i) >= *first;
  } else if (!types->is_array() || types->size() != layers) {
    const std::string seen =
        types->is_array() ? fmt::format("has {} entries", types->size()) : fmt::format("is {}", shown(*types));
    reader.note("layer_types", seen, fmt::format("accepted: a list with one entry for each of {} layers", layers));
  } else {
    for (std::size_t i = 0; i < layers; ++i) {
      const json& type = (*types)[i];
      if (type != "sliding_attention" && type != "full_attention" && type != "attention") {
        reader.note(fmt::format("layer_types[{}]", i), fmt::format("is {}", shown(type)),
                    "accepted: full_attention, sliding_attention");
        return;
      }
      sliding[i] = type == "sliding_attention";
    }
  }
  if (config.sliding_window) config.sliding_layers = std::move(sliding);
}

void read_window(ConfigReader& reader, const FamilyRow& family, ModelConfig& config) {
  if (family.keys.windows == WindowKeys::none) return;
  if (!reader.is_null("sliding_window"))
    config.sliding_window = reader.whole({"sliding_window"}, default_window, largest::positions);
  if (family.keys.windows == WindowKeys::every_layer) return;
  if (!reader.flag("use_sliding_window", false)) config.sliding_window.reset();
  if (config.layers > 0) read_layer_types(reader, config);
}

// Absent or null where transformers accepts that: what the family does then.
Whole read_kv_heads(ConfigReader& reader, const FamilyRow& family, Whole heads) {
  if (reader.is_null("num_key_value_heads") && family.keys.null_kv_heads) return heads;
  const std::int64_t usual = family.defaults.kv_heads > 0 ? family.defaults.kv_heads : heads.value_or(1);
  return reader.whole({"num_key_value_heads"}, usual, largest::attention_width);
}

Whole read_head_size(ConfigReader& reader, const FamilyRow& family, Whole hidden, Whole heads) {
  const bool has_usual = family.defaults.head_size > 0;
  const bool absent = reader.find({"head_dim"}) == nullptr || (reader.is_null("head_dim") && !has_usual);
  if (!absent || has_usual)
    return reader.whole({"head_dim"}, has_usual ? family.defaults.head_size : 1, largest::attention_width);
  if (!hidden || !heads) return std::nullopt;
  if (*hidden % *heads == 0) return *hidden / *heads;
  reader.note("num_attention_heads", fmt::format("{} heads do not divide hidden_size {}", *heads, *hidden),
              "write head_dim, or correct one of them");
  return std::nullopt;
}

// The keys that families of Llama's layout share.
void read_llama_layout(ConfigReader& reader, const FamilyRow& family, ModelConfig& config) {
  const ModelConfig& usual = family.defaults;
  const Whole hidden = reader.whole({"hidden_size"}, usual.hidden, largest::hidden);
  const Whole heads = reader.whole({"num_attention_heads"}, usual.heads, largest::attention_width);
  config.vocabulary = reader.whole({"vocab_size"}, usual.vocabulary, largest::vocabulary).value_or(0);
  config.hidden = hidden.value_or(0);
  config.intermediate = reader.whole({"intermediate_size"}, usual.intermediate, largest::intermediate).value_or(0);
  config.layers = reader.whole({"num_hidden_layers"}, usual.layers, largest::layers).value_or(0);
  config.heads = heads.value_or(0);
  config.kv_heads = read_kv_heads(reader, family, heads).value_or(0);
  config.head_size = read_head_size(reader, family, hidden, heads).value_or(0);
  config.positions = reader.whole({"max_position_embeddings"}, usual.positions, largest::positions).value_or(0);
  if (!family.keys.null_attention_dropout || !reader.is_null("attention_dropout"))
    config.dropout.attention = reader.probability("attention_dropout", usual.dropout.attention);
  if (family.keys.attention_bias)
    config.qkv_bias = config.output_bias = reader.flag("attention_bias", usual.qkv_bias);
  if (family.keys.mlp_bias) config.mlp_bias = reader.flag("mlp_bias", usual.mlp_bias);
  read_activation(reader, "hidden_act", config);
  read_window(reader, family, config);
  config.norm_epsilon = reader.positive("rms_norm_eps", usual.norm_epsilon);
  read_rope(reader, config);
}

// n_ctx is an old name for n_positions that transformers no longer reads.
Whole read_gpt2_positions(ConfigReader& reader, const FamilyRow& family) {
  const Whole positions =
      reader.whole({"n_positions", "max_position_embeddings"}, family.defaults.positions, largest::positions);
  if (reader.find({"n_positions"}) != nullptr || reader.find({"max_position_embeddings"}) != nullptr) return positions;
  const Whole old = reader.whole({"n_ctx"}, family.defaults.positions, largest::positions);
  if (old && *old != family.defaults.positions)
    reader.note("n_ctx",
                fmt::format("is {}, and n_positions is missing, which then is {}", *old, family.defaults.positions),
                "write n_positions");
  return positions;
}

void read_gpt2(ConfigReader& reader, const FamilyRow& family, ModelConfig& config) {
  const Whole hidden = reader.whole({"n_embd", "hidden_size"}, family.defaults.hidden, largest::hidden);
  const Whole heads = reader.whole({"n_head", "num_attention_heads"}, family.defaults.heads, largest::attention_width);
  config.vocabulary = reader.whole({"vocab_size"}, family.defaults.vocabulary, largest::vocabulary).value_or(0);
  config.hidden = hidden.value_or(0);
  config.layers = reader.whole({"n_layer", "num_hidden_layers"}, family.defaults.layers, largest::layers).value_or(0);
  config.heads = config.kv_heads = heads.value_or(0);
  config.positions = read_gpt2_positions(reader, family).value_or(0);
  config.intermediate = 4 * config.hidden;
  if (!reader.is_null("n_inner"))
    config.intermediate = reader.whole({"n_inner"}, config.intermediate, largest::intermediate).value_or(0);
  if (hidden && heads && *hidden % *heads != 0)
    reader.note("n_head", fmt::format("{} heads do not divide n_embd {}", *heads, *hidden), "correct one of them");
  else if (hidden && heads)
    config.head_size = *hidden / *heads;
  const Dropout& usual = family.defaults.dropout;
  config.dropout = {.embedding = reader.probability("embd_pdrop", usual.embedding),
                    .attention = reader.probability("attn_pdrop", usual.attention),
                    .residual = reader.probability("resid_pdrop", usual.residual)};
  config.norm_epsilon = reader.positive("layer_norm_epsilon", family.defaults.norm_epsilon);
  config.scaled_attention = reader.flag("scale_attn_weights", true);
  config.attention_scaled_by_layer = reader.flag("scale_attn_by_inverse_layer_idx", false);
  read_activation(reader, "activation_function", config);
}

// A model of several parts is refused with the name of its language model, which may be a known one.
Error refuse_family(const std::string& model_type, const json& object, std::string_view source) {
  const std::vector<std::string> known = family_names();
  std::string what = fmt::format("{}: model_type {} is not known", source, shown(json(model_type)));
  const auto part = object.find("text_config");
  if (part != object.end() && part->is_object()) {
    const auto inner = part->find("model_type");
    what += fmt::format("; it is a model of several parts, whose text_config is {}",
                        inner == part->end() ? "of no named family" : shown(*inner));
  }
  const auto near = nearest(model_type, known);
  const std::string list = fmt::format("known: {}", join(known, ", "));
  return {Error::Kind::bad_input, what, near ? fmt::format("do you mean {}? {}", *near, list) : list};
}

Result<Family> read_family(const json& object, std::string_view source) {
  const auto entry = object.find("model_type");
  if (entry == object.end() || !entry->is_string())
    return Error{Error::Kind::bad_input,
                 fmt::format("{}: model_type is {}", source, entry == object.end() ? "missing" : shown(*entry)),
                 fmt::format("write \"model_type\": one of {}", join(family_names(), ", "))};
  const auto family = family_named(entry->get_ref<const std::string&>());
  if (!family) return refuse_family(entry->get<std::string>(), object, source);
  return *family;
}

}  // namespace

std::vector<std::string> contradictions(const ModelConfig& config) {
  std::vector<std::string> found;
  const auto bound = [&](std::string_view key, std::int64_t value, std::int64_t highest) {
    if (value < 1 || value > highest) found.push_back(fmt::format("{} is {}, not from 1 to {}", key, value, highest));
  };
  bound("vocab_size", config.vocabulary, largest::vocabulary);
  bound("hidden_size", config.hidden, largest::hidden);
  bound("intermediate_size", config.intermediate, largest::intermediate);
  bound("num_hidden_layers", config.layers, largest::layers);
  bound("max_position_embeddings", config.positions, largest::positions);
  bound("num_attention_heads", config.heads, largest::attention_width);
  bound("num_key_value_heads", config.kv_heads, largest::attention_width);
  bound("head_dim", config.head_size, largest::attention_width);
  if (!found.empty()) return found;
  if (config.query_width() > largest::attention_width)
    found.push_back(fmt::format("num_attention_heads {} times head_dim {} is more than {}", config.heads,
                                config.head_size, largest::attention_width));
  if (config.heads % config.kv_heads != 0)
    found.push_back(
        fmt::format("num_key_value_heads {} does not divide num_attention_heads {}", config.kv_heads, config.heads));
  if (config.position_kind == PositionKind::rotary && config.head_size % 2 != 0)
    found.push_back(fmt::format("head_dim {} is odd: a rotary embedding turns pairs", config.head_size));
  return found;
}

Result<ModelConfig> parse_model_config(std::string_view text, std::string_view source) {
  const auto object = parse_json_object(text, source);
  if (!object) return object.error();
  const auto family = read_family(*object, source);
  if (!family) return family.error();
  const FamilyRow& row = row_of(*family);
  ConfigReader reader(*object, source);
  ModelConfig config = blank_config(*family);
  read_architectures(reader, row, config);
  check_extras(reader, row);
  if (row.layout == ModelLayout::gpt2)
    read_gpt2(reader, row, config);
  else
    read_llama_layout(reader, row, config);
  const bool ties = reader.flag("tie_word_embeddings", row.defaults.tied);
  config.tied = ties && config.predicts_tokens();
  read_dtype(reader, config);
  if (const auto taken = take_quantization(reader, source, config); !taken) return taken.error();
  std::vector<Problem> problems = reader.problems();
  if (problems.empty())
    for (std::string& what : contradictions(config)) problems.push_back({std::string(source), std::move(what), ""});
  if (!problems.empty()) return to_error(problems);
  return config;
}

}  // namespace muster::spec
