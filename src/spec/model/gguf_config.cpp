#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "spec/model/families.hpp"
#include "spec/model/gguf_header.hpp"
#include "spec/model/gguf_names.hpp"
#include "json/json_text.hpp"
#include "spec/model/tensor_check.hpp"

namespace muster::spec {
namespace {

bool has_tensor(const GgufHeader& header, std::string_view name) {
  return std::ranges::find(header.tensors, name, &GgufTensor::name) != header.tensors.end();
}

const std::string* text_of(const GgufHeader& header, std::string_view key) {
  const auto entry = header.metadata.find(key);
  return entry == header.metadata.end() ? nullptr : std::get_if<std::string>(&entry->second);
}

// Reads one architecture's keys ("llama." + …) and remembers each that is missing or wrong.
class MetadataReader {
 public:
  MetadataReader(const GgufHeader& header, std::string architecture, std::string_view source)
      : header_(header), architecture_(std::move(architecture)), source_(source) {}

  std::optional<std::int64_t> find(std::string_view name) {
    const std::string key = fmt::format("{}.{}", architecture_, name);
    const auto entry = header_.metadata.find(key);
    if (entry == header_.metadata.end()) return std::nullopt;
    const auto* number = std::get_if<std::int64_t>(&entry->second);
    if (number != nullptr && *number > 0) return *number;
    note(key, number != nullptr ? fmt::format("is {}", *number) : "is not a whole number", "accepted: from 1 on");
    return std::nullopt;
  }

  // A count of something that files may lack; 0 means the same.
  std::optional<std::int64_t> find_some(std::string_view name) {
    const auto entry = header_.metadata.find(fmt::format("{}.{}", architecture_, name));
    if (entry != header_.metadata.end() && entry->second == GgufValue(std::int64_t{0})) return std::nullopt;
    return find(name);
  }

  double find_number(std::string_view name, double fallback) {
    const std::string key = fmt::format("{}.{}", architecture_, name);
    const auto entry = header_.metadata.find(key);
    if (entry == header_.metadata.end()) return fallback;
    const auto* number = std::get_if<double>(&entry->second);
    const auto* whole = std::get_if<std::int64_t>(&entry->second);
    const double seen = number != nullptr ? *number : whole != nullptr ? static_cast<double>(*whole) : 0;
    if (seen > 0 && seen < 1e300) return seen;
    note(key, "is not a number above 0", "");
    return fallback;
  }

  std::string find_text(std::string_view name, std::string_view fallback) const {
    const std::string* text = text_of(header_, fmt::format("{}.{}", architecture_, name));
    return text == nullptr ? std::string(fallback) : *text;
  }

  std::int64_t require(std::string_view name) {
    const std::size_t before = problems_.size();
    const auto number = find(name);
    if (!number && problems_.size() == before) note(fmt::format("{}.{}", architecture_, name), "is missing", "");
    return number.value_or(0);
  }

  void note(std::string key, std::string what, std::string remedy) {
    problems_.push_back({fmt::format("{}: {}", source_, key), std::move(what), std::move(remedy)});
  }
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  const GgufHeader& header_;
  std::string architecture_;
  std::string_view source_;
  std::vector<Problem> problems_;
};

Result<Family> read_family(const GgufHeader& header, std::string_view source) {
  std::vector<std::string> known;
  for (const FamilyRow& row : all_families())
    if (row.gguf.has_files) known.emplace_back(row.name);
  const std::string* architecture = text_of(header, "general.architecture");
  const std::string list = fmt::format("known: {}", join(known, ", "));
  if (architecture == nullptr)
    return Error{Error::Kind::bad_input, fmt::format("{}: general.architecture is missing", source), list};
  if (std::ranges::find(known, *architecture) == known.end())
    return Error{Error::Kind::bad_input,
                 fmt::format("{}: general.architecture {} is not known", source, shown(nlohmann::json(*architecture))),
                 list};
  return *family_named(*architecture);
}

std::int64_t read_vocabulary(const GgufHeader& header, MetadataReader& reader) {
  if (const auto size = reader.find("vocab_size")) return *size;
  const auto tokens = header.metadata.find("tokenizer.ggml.tokens");
  if (tokens != header.metadata.end())
    if (const auto* list = std::get_if<GgufArray>(&tokens->second))
      return static_cast<std::int64_t>(list->texts.size());
  reader.note("vocab_size", "is missing, and so is tokenizer.ggml.tokens", "");
  return 0;
}

void read_heads(MetadataReader& reader, ModelConfig& config) {
  config.heads = reader.require("attention.head_count");
  config.kv_heads = reader.find("attention.head_count_kv").value_or(config.heads);
  if (const auto size = reader.find("attention.key_length"))
    config.head_size = *size;
  else if (config.heads > 0 && config.hidden % config.heads == 0)
    config.head_size = config.hidden / config.heads;
  else if (config.heads > 0)
    reader.note("attention.head_count",
                fmt::format("{} heads do not divide embedding_length {}", config.heads, config.hidden), "");
}

// Files of GPT-2's layout have every bias.
void read_switches(const GgufHeader& header, ModelConfig& config) {
  config.tied = !has_tensor(header, "output.weight");
  if (row_of(config.family).layout == ModelLayout::gpt2) return;
  config.qkv_bias = has_tensor(header, "blk.0.attn_q.bias");
  config.output_bias = has_tensor(header, "blk.0.attn_output.bias");
  config.mlp_bias = has_tensor(header, "blk.0.ffn_gate.bias");
}

// Llama 3's frequencies are in a tensor of factors, which the reader of tensors reads.
void read_rope(MetadataReader& reader, ModelConfig& config) {
  Rope& rope = config.rope;
  rope.theta = reader.find_number("rope.freq_base", 10000);
  const std::string kind = reader.find_text("rope.scaling.type", "none");
  rope.factor = reader.find_number("rope.scaling.factor", 1);
  if (kind == "linear") {
    rope.kind = RopeKind::linear;
  } else if (kind == "yarn") {
    rope.kind = RopeKind::yarn;
    rope.original_positions = reader.find("rope.scaling.original_context_length").value_or(config.positions);
  } else if (kind != "none") {
    reader.note(fmt::format("{}.rope.scaling.type", name(config.family)),
                fmt::format("is {}", shown(nlohmann::json(kind))), "known: none, linear, yarn");
  }
  const auto rotating = reader.find("rope.dimension_count");
  if (rotating && *rotating != config.head_size)
    reader.note(fmt::format("{}.rope.dimension_count", name(config.family)),
                fmt::format("is {} of {}: heads that rotate in part are not known", *rotating, config.head_size), "");
}

void read_numbers(MetadataReader& reader, ModelConfig& config) {
  const bool rms = config.norm == NormKind::rms;
  const std::string_view epsilon = rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
  config.norm_epsilon = reader.find_number(epsilon, config.norm_epsilon);
  if (config.position_kind == PositionKind::rotary) read_rope(reader, config);
}

}  // namespace

Result<ModelConfig> gguf_model_config(const GgufHeader& header, std::string_view source) {
  const auto family = read_family(header, source);
  if (!family) return family.error();
  MetadataReader reader(header, std::string(name(*family)), source);
  ModelConfig config = blank_config(*family);
  config.layers = reader.require("block_count");
  config.hidden = reader.require("embedding_length");
  config.intermediate = reader.require("feed_forward_length");
  config.positions = reader.require("context_length");
  config.vocabulary = read_vocabulary(header, reader);
  read_heads(reader, config);
  read_switches(header, config);
  read_numbers(reader, config);
  config.sliding_window = reader.find_some("attention.sliding_window");
  if (const auto experts = reader.find_some("expert_count"))
    reader.note(fmt::format("{}.expert_count", name(*family)),
                fmt::format("is {}: models of experts are not known", *experts), "");
  std::vector<Problem> problems = reader.problems();
  if (problems.empty())
    for (std::string& what : contradictions(config)) problems.push_back({std::string(source), std::move(what), ""});
  if (!problems.empty()) return to_error(problems);
  return config;
}

Result<void> check_gguf_tensors(const ModelShape& shape, const GgufHeader& header, std::string_view source) {
  std::vector<NamedSizes> wanted, held;
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    const TensorShape& tensor = shape.tensors[i];
    if (tensor.kind == TensorKind::derived || tensor.same_as) continue;
    wanted.push_back({gguf_name(shape, TensorId{i}), gguf_dimensions(shape, TensorId{i})});
  }
  for (const GgufTensor& tensor : header.tensors) held.push_back({tensor.name, tensor.dimensions});
  const auto extra = compare_tensors(wanted, held, source);
  if (!extra) return extra.error();
  return {};  // files may hold more, such as rope_freqs.weight
}

}  // namespace muster::spec
