// What a model is, as its config.json (or a GGUF file's metadata) says: numbers and switches, no tensors yet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "spec/model/activation.hpp"
#include "spec/element_type.hpp"
#include "spec/model/quantized/checkpoint_quantization.hpp"
#include "spec/model/rope.hpp"
#include "spec/values.hpp"

namespace muster::spec {

enum class Family { llama, mistral, qwen2, qwen3, gpt2, arcee };

// "llama", "gpt2": config.json's model_type.
std::string_view name(Family family);

// How a model knows the order of its tokens.
enum class PositionKind {
  rotary,   // each layer turns queries and keys
  learned,  // a row for each position, added to the embedding
};

enum class NormKind {
  rms,    // with a weight
  layer,  // with a weight and a bias
};

struct Dropout {
  double embedding = 0;
  double attention = 0;
  double residual = 0;
  bool operator==(const Dropout&) const = default;
};

// What a linear layer on the final norm's rows is for that gives a few numbers of each.
enum class ScoreUse {
  sequences,  // one judgement of a text, at its last token: transformers' …ForSequenceClassification
  tokens,     // one of each token, with a bias: …ForTokenClassification
  values,     // what is expected from each token on, with a bias, beside the head that predicts tokens: TRL's value head
};
std::vector<Word<ScoreUse>> words(ScoreUse);

struct ScoreHead {
  ScoreUse use = ScoreUse::sequences;
  std::int64_t outputs = 1;  // numbers of a row

  bool has_bias() const { return use != ScoreUse::sequences; }
  // Whether the model predicts no tokens, as it has this head instead.
  bool is_alone() const { return use != ScoreUse::values; }

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("use", self.use);
    visit("outputs", self.outputs);
  }
  bool operator==(const ScoreHead&) const = default;
};

// What a family means is said by the switches; only the reading and writing of files asks which one it is. A
// configuration that is made by hand begins with blank_config(), or is a Llama.
struct ModelConfig {
  Family family = Family::llama;
  std::int64_t vocabulary = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  std::int64_t positions = 0;  // longest sequence the model was made for
  bool tied = false;           // the output head is the embedding
  PositionKind position_kind = PositionKind::rotary;
  NormKind norm = NormKind::rms;
  bool query_key_norm = false;  // an RMS norm over each head of queries and keys, before they are turned
  bool gated = true;            // feed-forward: activation(gate) times up; otherwise activation(up)
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool mlp_bias = false;
  Activation activation = Activation::silu;
  double norm_epsilon = 1e-6;
  Rope rope;                                   // of rotary positions
  bool softmax_in_float32 = true;              // transformers raises the scores for it; of GPT-2 it does not
  bool scaled_attention = true;                // scores are divided by the root of head_size; GPT-2 may not
  bool attention_scaled_by_layer = false;      // and once more by the layer's number, from 1; GPT-2 may
  std::optional<std::int64_t> sliding_window;  // of the layers that slide
  std::vector<bool> sliding_layers;            // empty: all slide when there is a window
  std::optional<ElementType> dtype;            // of the checkpoint, if the file says so
  Dropout dropout;
  std::optional<CheckpointQuantization> quantization;  // of the checkpoint, where it is quantised
  std::optional<ScoreHead> score;  // absent: it only predicts tokens
  std::int64_t remainder = 0;  // of a model made up from its size alone: parameters of the 1-D tensor model.remainder

  bool predicts_tokens() const { return !score || !score->is_alone(); }
  std::int64_t query_width() const { return heads * head_size; }
  std::int64_t kv_width() const { return kv_heads * head_size; }
  bool operator==(const ModelConfig&) const = default;
};

// "llama", "mistral", …: every family, in the order of the enum.
std::vector<std::string> family_names();
std::optional<Family> family_named(std::string_view model_type);

// The family with its switches, activation and dropout; without any size.
ModelConfig blank_config(Family family);

// config.json's text. source names it in messages. Every wrong key is reported; both spellings of keys that changed are
// read (torch_dtype and dtype, n_embd and hidden_size of GPT-2, …), and two that disagree are an error; an unknown
// family is refused by name. Values that transformers would fill in are filled in the same way.
Result<ModelConfig> parse_model_config(std::string_view text, std::string_view source);

// Upper limits for every source. The product of all of them, in bytes of state per parameter, fits 63 bits.
namespace largest {
constexpr std::int64_t vocabulary = std::int64_t{1} << 26;
constexpr std::int64_t hidden = std::int64_t{1} << 20;
constexpr std::int64_t intermediate = std::int64_t{1} << 22;
constexpr std::int64_t attention_width = std::int64_t{1} << 22;  // heads * head_size
constexpr std::int64_t layers = std::int64_t{1} << 13;
constexpr std::int64_t positions = std::int64_t{1} << 30;
constexpr std::int64_t labels = std::int64_t{1} << 20;
}  // namespace largest

// What is wrong with the numbers taken together (heads that do not divide, sizes beyond the largest), one sentence each
// in config.json's words; empty when they describe a model.
std::vector<std::string> contradictions(const ModelConfig& config);

// A Llama-like configuration of about this many parameters, for "--params 70B": sizes between those of public models
// (135M to 405B), never more than asked for and at most 3 % fewer. parameters: smallest_typical to largest_typical.
constexpr std::int64_t smallest_typical = 1'000'000;
constexpr std::int64_t largest_typical = 10'000'000'000'000;
ModelConfig typical_config(std::int64_t parameters);

// "70B", "1.5b", "135M", "1T", "70553706496": a count of parameters.
Result<std::int64_t> parse_parameter_count(std::string_view text);

}  // namespace muster::spec
