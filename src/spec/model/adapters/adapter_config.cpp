#include "spec/model/adapters/adapter_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "json/json_text.hpp"
#include "spec/model/config_reader.hpp"
#include "spec/model/adapters/path_pattern.hpp"

namespace muster::spec {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::int64_t largest_rank = 1 << 16;

// Read below.
constexpr std::array acting_keys{"peft_type",        "base_model_name_or_path", "task_type",      "r",
                                 "lora_alpha",       "lora_dropout",            "use_rslora",     "use_dora",
                                 "target_modules",   "exclude_modules",         "modules_to_save", "layers_to_transform",
                                 "layers_pattern",   "rank_pattern",            "alpha_pattern",  "bias",
                                 "init_lora_weights", "fan_in_fan_out"};

// What they say has no effect on the numbers of an adapter that is there. (Whether a weight is transposed is known from
// its module, as PEFT knows it; qalora_group_size acts with use_qalora alone.)
constexpr std::array idle_keys{"auto_mapping", "inference_mode", "megatron_core",  "peft_version",
                               "revision",     "runtime_config", "qalora_group_size"};

struct UnsupportedKey {
  std::string_view key, what;
};
constexpr std::array unsupported_keys{
    UnsupportedKey{"lora_bias", "biases of B"},
    UnsupportedKey{"layer_replication", "layers that are used more than once"},
    UnsupportedKey{"trainable_token_indices", "tokens that are trained one by one"},
    UnsupportedKey{"target_parameters", "adapters of parameters that are in no linear layer"},
    UnsupportedKey{"ensure_weight_tying", "adapters that are tied"},
    UnsupportedKey{"use_qalora", "QALoRA"},
    UnsupportedKey{"use_bdlora", "BD-LoRA"},
    UnsupportedKey{"alora_invocation_tokens", "aLoRA"},
};

// Starts that leave the base as it is, so that A and B are all there is.
constexpr std::array plain_starts{"gaussian", "orthogonal", "eva"};

bool says_nothing(const json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         ((value.is_object() || value.is_array() || value.is_string()) && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

bool is_among(std::string_view key, const auto& keys) { return std::ranges::find(keys, key) != keys.end(); }

// A list of texts; a null or a missing one is empty.
std::vector<std::string> read_names(ConfigReader& reader, const char* key) {
  const json* value = reader.find({key});
  std::vector<std::string> names;
  if (value == nullptr || value->is_null()) return names;
  if (!value->is_array() || !std::ranges::all_of(*value, [](const json& name) { return name.is_string(); })) {
    reader.note(key, fmt::format("is {}", shown(*value)), "accepted: a list of texts, or null");
    return names;
  }
  for (const json& name : *value) names.push_back(name.get<std::string>());
  return names;
}

// Names, or a pattern as a text. A pattern that could be a name is put into a group, so that it stays a pattern.
std::vector<std::string> read_choice(ConfigReader& reader, const char* key) {
  const json* value = reader.find({key});
  if (value != nullptr && value->is_string()) {
    const auto& text = value->get_ref<const std::string&>();
    if (text.empty()) return {};
    return {is_module_name(text) && text != "all-linear" ? fmt::format("(?:{})", text) : text};
  }
  std::vector<std::string> names = read_names(reader, key);
  for (const std::string& name : names)
    if (names.size() == 1 && !is_module_name(name))
      reader.note(key, fmt::format("lists {}, which no module is called", shown(json(name))),
                  "a pattern is written as a text, not as a list");
  return names;
}

void read_layers(ConfigReader& reader, AdapterOptions& options) {
  if (const json* layers = reader.find({"layers_to_transform"}); layers != nullptr && !layers->is_null()) {
    const json list = layers->is_array() ? *layers : json::array({*layers});
    for (const json& layer : list) {
      if (layer.is_number_unsigned() && layer.get<std::uint64_t>() < (std::uint64_t{1} << 31))
        options.layers.push_back(layer.get<std::int64_t>());
      else
        reader.note("layers_to_transform", fmt::format("names the layer {}", shown(layer)),
                    "accepted: whole numbers from 0 on");
    }
  }
  const json* patterns = reader.find({"layers_pattern"});
  if (patterns != nullptr && patterns->is_string() && !patterns->get_ref<const std::string&>().empty())
    options.layers_patterns = {patterns->get<std::string>()};
  else if (patterns != nullptr && !patterns->is_string())
    options.layers_patterns = read_names(reader, "layers_pattern");
}

// In the order of the file, in which they are tried.
template <class Row, class Take>
void read_patterns(ConfigReader& reader, const ordered_json& object, const char* key, std::vector<Row>& rows, Take&& take,
                   std::string_view accepted) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return;
  if (!found->is_object()) return reader.note(key, fmt::format("is {}", shown(json(*found))), "accepted: an object");
  for (const auto& [pattern, value] : found->items())
    if (auto row = take(pattern, json(value)))
      rows.push_back(std::move(*row));
    else
      reader.note(key, fmt::format("of {} is {}", shown(json(pattern)), shown(json(value))), std::string(accepted));
}

void read_all_patterns(ConfigReader& reader, const ordered_json& object, AdapterOptions& options) {
  read_patterns(
      reader, object, "rank_pattern", options.rank_patterns,
      [](const std::string& pattern, const json& value) -> std::optional<RankPattern> {
        if (!value.is_number_unsigned() || value.get<std::uint64_t>() < 1 ||
            value.get<std::uint64_t>() > std::uint64_t{largest_rank})
          return std::nullopt;
        return RankPattern{pattern, value.get<std::int64_t>()};
      },
      fmt::format("accepted: a whole number from 1 to {}", largest_rank));
  read_patterns(
      reader, object, "alpha_pattern", options.alpha_patterns,
      [](const std::string& pattern, const json& value) -> std::optional<AlphaPattern> {
        if (!value.is_number() || !(value.get<double>() > 0 && value.get<double>() < 1e30)) return std::nullopt;
        return AlphaPattern{pattern, value.get<double>()};
      },
      "accepted: a number above 0");
}

void check_unsupported(ConfigReader& reader, const json& object) {
  for (const auto& [key, value] : object.items()) {
    if (is_among(key, acting_keys) || is_among(key, idle_keys) || says_nothing(value)) continue;
    const auto known = std::ranges::find(unsupported_keys, std::string_view(key), &UnsupportedKey::key);
    if (known != unsupported_keys.end())
      reader.note(key, fmt::format("is {}: {} are not supported", shown(value), known->what));
    else
      reader.note(key, fmt::format("is {}, which is not supported", shown(value)),
                  "only what it says when it is null, false or empty is known");
  }
}

void check_kind(ConfigReader& reader, const json& object) {
  if (const std::string type = reader.text("peft_type", ""); type != "LORA")
    reader.note("peft_type", type.empty() ? "is missing" : fmt::format("is {}", shown(json(type))), "accepted: LORA");
  if (const json* bias = reader.find({"bias"}); bias != nullptr && !says_nothing(*bias) && *bias != "none")
    reader.note("bias", fmt::format("is {}: trained biases are not supported", shown(*bias)), "accepted: none");
  const auto start = object.find("init_lora_weights");
  if (start == object.end() || start->is_boolean() || start->is_null()) return;
  if (!start->is_string() || !is_among(start->get_ref<const std::string&>(), plain_starts))
    reader.note("init_lora_weights", fmt::format("is {}, which changes the base model", shown(*start)),
                "save the adapter with PEFT's path_initial_model_for_weight_conversion, which gives plain LoRA");
}

std::string text_or_null(ConfigReader& reader, const char* key) { return reader.is_null(key) ? "" : reader.text(key, ""); }

ordered_json number_json(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) == value ? ordered_json(whole) : ordered_json(value);
}

ordered_json choice_json(const std::vector<std::string>& entries) {
  if (entries.empty()) return nullptr;
  if (entries.size() == 1 && (!is_module_name(entries[0]) || entries[0] == "all-linear")) return entries[0];
  return entries;
}

template <class T>
ordered_json list_or_null(const std::vector<T>& list) {
  return list.empty() ? ordered_json(nullptr) : ordered_json(list);
}

}  // namespace

Result<AdapterConfig> parse_adapter_config(std::string_view text, std::string_view source) {
  const auto ordered = parse_ordered_json_object(text, source);
  if (!ordered) return ordered.error();
  const json object = *ordered;
  ConfigReader reader(object, source);
  AdapterConfig config;
  AdapterOptions& options = config.options;
  check_kind(reader, object);
  config.base_model = text_or_null(reader, "base_model_name_or_path");
  config.task = text_or_null(reader, "task_type");
  if (!config.task.empty() && config.task != "CAUSAL_LM" && config.task != classification_task)
    reader.note("task_type", fmt::format("is {}", shown(json(config.task))),
                fmt::format("accepted: CAUSAL_LM, {}", classification_task));
  config.transposed = reader.flag("fan_in_fan_out", false);
  options.rank = reader.whole({"r"}, 8, largest_rank).value_or(8);
  options.alpha = reader.positive("lora_alpha", 8);
  options.dropout = reader.probability("lora_dropout", 0);
  options.rank_stabilized = reader.flag("use_rslora", false);
  options.weight_decomposed = reader.flag("use_dora", false);
  options.targets = read_choice(reader, "target_modules");
  if (options.targets.empty() && reader.problems().empty())
    reader.note("target_modules", "names no module", "name the modules that have adapters, as PEFT does when it saves");
  options.excluded = read_choice(reader, "exclude_modules");
  options.saved_modules = read_names(reader, "modules_to_save");
  read_layers(reader, options);
  read_all_patterns(reader, *ordered, options);
  check_unsupported(reader, object);
  if (!reader.problems().empty()) return to_error(reader.problems());
  return config;
}

std::string write_adapter_config(const AdapterConfig& config) {
  const AdapterOptions& options = config.options;
  ordered_json ranks = ordered_json::object(), alphas = ordered_json::object();
  for (const RankPattern& row : options.rank_patterns) ranks[row.pattern] = row.rank;
  for (const AlphaPattern& row : options.alpha_patterns) alphas[row.pattern] = number_json(row.alpha);
  const auto text = [](const std::string& value) { return value.empty() ? ordered_json(nullptr) : ordered_json(value); };
  const ordered_json object{{"alpha_pattern", std::move(alphas)},
                            {"auto_mapping", nullptr},
                            {"base_model_name_or_path", text(config.base_model)},
                            {"bias", "none"},
                            {"exclude_modules", choice_json(options.excluded)},
                            {"fan_in_fan_out", config.transposed},
                            {"inference_mode", true},
                            {"init_lora_weights", true},
                            {"layers_pattern", list_or_null(options.layers_patterns)},
                            {"layers_to_transform", list_or_null(options.layers)},
                            {"lora_alpha", number_json(options.alpha)},
                            {"lora_dropout", options.dropout},
                            {"modules_to_save", list_or_null(options.saved_modules)},
                            {"peft_type", "LORA"},
                            {"r", options.rank},
                            {"rank_pattern", std::move(ranks)},
                            {"revision", nullptr},
                            {"target_modules", choice_json(options.targets)},
                            {"task_type", text(config.task)},
                            {"use_dora", options.weight_decomposed},
                            {"use_rslora", options.rank_stabilized}};
  return object.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace muster::spec
