// Feeds mutated texts to every parser that reads what a user wrote, and mutated checkpoint headers to those that read
// what others wrote: parser_fuzz [--inputs N] [--seed S]. A crash, a
// sanitizer report or an input that takes far too long ends it, with the input on standard error.
#include <filesystem>
#include <string>
#include <vector>

#include "base/byte_count.hpp"
#include "base/duration.hpp"
#include "system/files.hpp"
#include "base/text.hpp"
#include "checkpoint_bytes.hpp"
#include "fuzz/fuzz_frame.hpp"
#include "fuzz/mutator.hpp"
#include "gpu/inventory.hpp"
#include "gpu/mask.hpp"
#include "spec/model/checkpoint_config.hpp"
#include "spec/model/gguf_header.hpp"
#include "spec/model/model_config.hpp"
#include "spec/model/model_shape.hpp"
#include "spec/resolve.hpp"
#include "spec/model/safetensors_header.hpp"
#include "sweep/search/suggest.hpp"

namespace muster {
namespace {

std::vector<gpu::Gpu> four_gpus() {
  const auto snapshot = gpu::parse_inventory(
      "gpus: [{count: 3, memory_total: 40GiB}, {memory_total: 1GiB, mig: [{uuid: MIG-aa, gpu_instance: 1, "
      "compute_instance: 0}]}]",
      "four");
  if (!snapshot) throw std::logic_error(snapshot.error().what);
  return snapshot->gpus;
}

std::vector<std::string> seed_texts(const spec::Schema& schema) {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(MUSTER_CORPUS)) {
    const auto extension = entry.path().extension();
    if (extension == ".yaml" || extension == ".json") texts.push_back(read_file(entry.path()).value());
  }
  texts.push_back(spec::print_configuration(schema, spec::resolve(schema, {}).value()));
  texts.emplace_back(
      "{\"gpus\": [{\"index\": 0, \"memory\": {\"total\": 42949672960, \"used\": 1}, \"processes\": [{\"pid\": 1}], "
      "\"healthy\": true}], \"links\": []}");
  texts.emplace_back(
      "gpus:\n  - {count: 8, name: A, memory_total: 40GiB, temperature: 30, xids: [79]}\nlinks:\n  - {between: [0, 1], "
      "kind: nvlink, lanes: 4}\n");
  texts.emplace_back("a: &x {b: [1, 2, *y]}\nc: *x\n? d\n: !!str e\n--- \n...\n");
  texts.emplace_back(
      "metric: m\ngoal: minimize\nparameters:\n  a: {distribution: log_normal, min: 1.0e-5, max: 1, mean: 0.1, scale: "
      "time}\n  b: {c: {distribution: uniform_pow2, min: 8, max: 64}}\n  d: [1, x]\nlimits: {trials: 5}\n");
  texts.emplace_back(
      "method: random\nmetric: {name: m}\nparameters: {a: {min: 1, max: 9}, b: {distribution: q_uniform, min: 0, max: "
      "4, "
      "q: 2}}\nearly_terminate: {type: hyperband, min_iter: 3}\ncommand: [\"${args}\"]\n");
  texts.emplace_back("{\"trial\": \"a\", \"parameters\": {\"b.c\": 1}, \"score\": 0.5, \"cost_seconds\": 1}\n");
  texts.emplace_back("training.max_steps=100");
  texts.emplace_back("0,1,GPU-aaaa,MIG-GPU-bbbb/1/0,-1");
  texts.emplace_back("12.5GiB 300ms");
  return texts;
}

std::vector<std::string> dictionary(const spec::Schema& schema) {
  std::vector<std::string> words{":",
                                 ": ",
                                 "- ",
                                 "\n",
                                 "\n  ",
                                 "[",
                                 "]",
                                 "{",
                                 "}",
                                 ",",
                                 "\"",
                                 "'",
                                 "#",
                                 "&a ",
                                 "*a",
                                 "!!int ",
                                 "|\n",
                                 ">\n",
                                 "---\n",
                                 "null",
                                 "~",
                                 "true",
                                 "-1",
                                 "1e999",
                                 "0x7f",
                                 "99999999999999999999",
                                 "GiB",
                                 "GB",
                                 "\t",
                                 "\\u0000",
                                 "\xff\xfe",
                                 "\xc3",
                                 "<<: ",
                                 "count: 1000000000",
                                 "index: -1",
                                 "memory_total: ",
                                 "between: [0, 0]",
                                 "MIG-",
                                 "GPU-"};
  for (const std::string& key : schema.keys()) {
    words.push_back(key);
    words.push_back(key.substr(key.rfind('.') + 1) + ": ");
  }
  return words;
}

void feed(const spec::Schema& schema, const std::vector<gpu::Gpu>& gpus, const std::string& text, std::size_t which) {
  switch (which) {
    case 0: {
      const auto resolved = spec::resolve(schema, {.file = spec::ConfigurationFile{"fuzz.yaml", text}});
      if (!resolved) return;
      const std::string printed = spec::print_configuration(schema, *resolved);  // what loads must print and load again
      if (!spec::resolve(schema, {.file = spec::ConfigurationFile{"printed.yaml", printed}}))
        throw std::logic_error("printed configuration does not load:\n" + printed);
      return;
    }
    case 1:
      static_cast<void>(gpu::parse_inventory(text, "fuzz.yaml"));
      return;
    case 2:
      static_cast<void>(gpu::read_mask(text, gpus));
      static_cast<void>(gpu::read_as_cuda(text, gpus));
      return;
    case 3:
      if (const auto override = spec::parse_override(text))
        static_cast<void>(spec::resolve(schema, {.overrides = {*override}}));
      return;
    case 4: {
      static_cast<void>(sweep::read_observations(text, "fuzz.jsonl"));
      const auto sweep = sweep::read_sweep_spec(text, "fuzz.yaml");
      if (!sweep) return;
      const auto first = sweep::suggest(*sweep, {});  // what is accepted has a point, and it lies in the space
      if (!first || !sweep::point_of(sweep->space, first->settings)) throw std::logic_error("a space without a point");
      return;
    }
    default:
      static_cast<void>(parse_byte_count(text));
      static_cast<void>(parse_duration(text));
      static_cast<void>(spec::resolve(schema, {.environment = {{"MUSTER_" + text.substr(0, 40), text}}}));
  }
}

// The header of a safetensors file with that many bytes of data.
constexpr std::size_t safetensors_data = 64 * 5 + 64 * 64 + 64 * 64 + 64 * 2;
constexpr const char* safetensors_seed =
    R"({"model.embed_tokens.weight": {"dtype": "U8", "shape": [5, 64], "data_offsets": [0, 320]},
        "model.layers.0.self_attn.q_proj.weight": {"dtype": "U8", "shape": [64, 64], "data_offsets": [320, 4416]},
        "model.layers.0.self_attn.k_proj.weight": {"dtype": "BF16", "shape": [64, 32], "data_offsets": [4416, 8512]},
        "model.layers.0.mlp.gate_proj.weight": {"dtype": "I8", "shape": [2, 64], "data_offsets": [8512, 8640]},
        "__metadata__": {"format": "pt"}})";

// Texts and bytes of models: config.json, and the headers of checkpoint files.
std::vector<std::string> seed_models() {
  std::vector<std::string> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_CORPUS "/unit/spec/fixtures/models"))
    seeds.push_back(read_file(entry.path() / "config.json").value());
  seeds.emplace_back(
      R"({"model_type": "qwen2", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2,
          "num_key_value_heads": 1, "use_sliding_window": true, "layer_types": ["full_attention", "sliding_attention"]})");
  const std::size_t texts = seeds.size();
  for (std::size_t i = 0; i < texts; ++i) {  // as many files of either kind
    seeds.emplace_back(safetensors_seed);
    spec::testing::GgufBytes bytes;
    bytes.word("general.architecture", "llama").number("llama.block_count", 1).number("llama.embedding_length", 64);
    bytes.number("llama.feed_forward_length", 8)
        .number("llama.context_length", 16)
        .number("llama.attention.head_count", 2);
    bytes.words("tokenizer.ggml.tokens", {"a", "b"}).number("general.alignment", 32);
    bytes.tensor("token_embd.weight", {64, 2}, 1, 256).tensor("blk.0.attn_q.weight", {64, 64}, 8, 4352);
    seeds.push_back(bytes.header());
  }
  return seeds;
}

std::vector<std::string> model_words() {
  std::vector<std::string> words{"null",
                                 "true",
                                 "-1",
                                 "0",
                                 "1.5",
                                 "\"x\"",
                                 "{}",
                                 "[]",
                                 "99999999999999999999",
                                 "1e400",
                                 "\"dtype\":\"BF16\"",
                                 "\"shape\":[0]",
                                 "\"data_offsets\":[0,8]",
                                 "GGUF",
                                 "\xff",
                                 "4194304",
                                 "8192",
                                 "\"gpt2\"",
                                 "\"model_type\":\"mistral\",",
                                 "}",
                                 "]",
                                 ","};
  for (const std::uint64_t number :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3}, std::uint64_t{255}, std::uint64_t{1} << 31,
        std::uint64_t{1} << 62, std::uint64_t{1} << 63, ~std::uint64_t{0}})
    words.push_back(spec::testing::little_endian(number));
  for (std::uint32_t type = 0; type < 16; ++type) words.push_back(spec::testing::little_endian(type));
  return words;
}

// What is accepted must be usable: a shape can be built, and nothing in it overflows.
void use(const spec::ModelConfig& config) {
  if (!spec::contradictions(config).empty()) throw std::logic_error("a configuration with contradictions was accepted");
  const spec::ModelShape shape = spec::build_shape(config, spec::ElementType::float64);
  if (shape.parameter_count() <= 0) throw std::logic_error("a model without parameters was accepted");
}

void use(const spec::SafetensorsHeader& header) {
  std::vector<spec::NamedSizes> sizes;
  for (const spec::StoredTensor& tensor : header.tensors) sizes.push_back({tensor.name, tensor.dimensions});
  if (const auto derived = spec::config_from_tensors(sizes, "fuzz")) use(derived->config);
}

void use(const spec::GgufHeader& header) {
  const auto config = spec::gguf_model_config(header, "fuzz");
  if (!config) return;
  use(*config);
  static_cast<void>(spec::check_gguf_tensors(spec::build_shape(*config, spec::ElementType::float32), header, "fuzz"));
}

// How many inputs each parser took: none would mean that nothing behind it was reached.
struct Accepted {
  std::size_t configs = 0, safetensors = 0, gguf = 0;
};

void feed_model(const std::string& bytes, std::size_t beyond, Accepted& accepted) {
  if (const auto config = spec::parse_model_config(bytes, "fuzz")) {
    ++accepted.configs;
    use(*config);
  }
  static_cast<void>(spec::parse_safetensors_header(bytes, bytes.size() + beyond, "fuzz"));
  const std::string file = spec::testing::safetensors_bytes(bytes, safetensors_data);  // with a length that is right
  if (const auto header = spec::parse_safetensors_header(file, file.size(), "fuzz")) {
    ++accepted.safetensors;
    use(*header);
  }
  if (const auto header = spec::parse_gguf_header(bytes, bytes.size() + beyond, "fuzz")) {
    ++accepted.gguf;
    use(*header);
  }
  static_cast<void>(spec::parse_parameter_count(bytes.substr(0, 24)));
}

class Fuzzer {
 public:
  explicit Fuzzer(std::uint64_t seed)
      : texts_(seed_texts(schema_), dictionary(schema_), seed), models_(seed_models(), model_words(), seed) {}

  // Texts and models by turns.
  void one() {
    text_ = !text_;
    fuzz::watched = text_ ? texts_.next() : models_.next();
    if (text_)
      feed(schema_, gpus_, fuzz::watched, texts_.below(8) < 4 ? 0 : texts_.below(6));
    else
      feed_model(fuzz::watched, models_.below(2) == 0 ? 0 : models_.below(150'000), accepted_);
  }
  std::vector<fuzz::Reached> reached() const {
    return {{"accepted_configs", accepted_.configs},
            {"accepted_safetensors", accepted_.safetensors},
            {"accepted_gguf", accepted_.gguf}};
  }

 private:
  const spec::Schema schema_;
  const std::vector<gpu::Gpu> gpus_ = four_gpus();
  Mutator texts_, models_;
  Accepted accepted_;
  bool text_ = false;
};

}  // namespace
}  // namespace muster

int main(int count, char** words) {
  return muster::fuzz::run<muster::Fuzzer>("parser_fuzz", count, words, 20'000, 10'000);
}
