#include "job/generate/generation_defaults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.hpp"
#include "job/model_forms.hpp"
#include "json/json_text.hpp"
#include "spec/model/model_search.hpp"
#include "system/files.hpp"

namespace muster::job {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Taken {
  const char* theirs;
  std::string_view key;
};
constexpr std::array taken_settings{Taken{"temperature", "generation.temperature"},
                                    Taken{"top_k", "generation.top_k"},
                                    Taken{"top_p", "generation.top_p"},
                                    Taken{"min_p", "generation.min_p"},
                                    Taken{"repetition_penalty", "generation.repetition_penalty"},
                                    Taken{"max_new_tokens", "generation.max_new_tokens"},
                                    Taken{"stop_strings", "generation.stop"}};

// Settings that change answers in transformers and are not supported here; each with its neutral number. null,
// false, 0 and an empty list are neutral, too.
struct Unsupported {
  const char* theirs;
  double neutral;
};
constexpr std::array unsupported{Unsupported{"num_beams", 1},
                                 Unsupported{"num_beam_groups", 1},
                                 Unsupported{"num_return_sequences", 1},
                                 Unsupported{"typical_p", 1},
                                 Unsupported{"top_h", 1},
                                 Unsupported{"epsilon_cutoff", 0},
                                 Unsupported{"eta_cutoff", 0},
                                 Unsupported{"encoder_repetition_penalty", 1},
                                 Unsupported{"no_repeat_ngram_size", 0},
                                 Unsupported{"encoder_no_repeat_ngram_size", 0},
                                 Unsupported{"diversity_penalty", 0},
                                 Unsupported{"penalty_alpha", 0},
                                 Unsupported{"guidance_scale", 1},
                                 Unsupported{"min_length", 0},
                                 Unsupported{"min_new_tokens", 0},
                                 Unsupported{"max_time", 0},
                                 Unsupported{"bad_words_ids", 0},
                                 Unsupported{"force_words_ids", 0},
                                 Unsupported{"constraints", 0},
                                 Unsupported{"forced_bos_token_id", -1},
                                 Unsupported{"forced_eos_token_id", -1},
                                 Unsupported{"suppress_tokens", 0},
                                 Unsupported{"begin_suppress_tokens", 0},
                                 Unsupported{"sequence_bias", 0},
                                 Unsupported{"exponential_decay_length_penalty", 0},
                                 Unsupported{"watermarking_config", 0},
                                 Unsupported{"dola_layers", 0}};

bool has(const json& file, const char* key) { return file.contains(key) && !file[key].is_null(); }

bool changes_nothing(const json& value, double neutral) {
  if (value.is_null() || value == false) return true;
  if (value.is_number()) return value.get<double>() == neutral;
  return value.is_structured() && value.empty();
}

// A JSON value as a configuration file would have it.
Node node_of(const json& value) {
  Node node;
  if (value.is_array()) {
    node.kind = Node::Kind::list;
    for (const json& item : value) node.items.push_back(node_of(item));
    return node;
  }
  node.kind = Node::Kind::scalar;
  node.quoted = value.is_string();
  node.text = value.is_string() ? value.get<std::string>() : value.dump();
  return node;
}

// The file next to a model's weights. A missing one is reported by the code that loads the model.
std::optional<fs::path> file_of(const spec::ModelSpec& model) {
  if (!model.path) return std::nullopt;
  const auto found = spec::find_model(*model.path, spec::model_search_from_environment());
  if (!found) return std::nullopt;
  std::error_code ignored;
  const fs::path file =
      (fs::is_directory(*found, ignored) ? *found : found->parent_path()) / "generation_config.json";
  const bool packed = to_lower(found->extension().string()) == ".gguf";  // defines itself how its answers end
  if (packed || !fs::exists(file, ignored)) return std::nullopt;
  return file;
}

class Defaults {
 public:
  Defaults(spec::ResolvedSpec& settings, const json& file, std::string name)
      : settings_(settings), file_(file), name_(std::move(name)) {}

  Result<void> add() {
    if (auto taken = take_sampling(); !taken) return taken;
    if (auto taken = take_length(); !taken) return taken;
    if (!words_.empty()) settings_.notes.push_back(fmt::format("{}: {}", name_, join(words_, ", ")));
    name_unsupported();
    return {};
  }

 private:
  bool is_set(std::string_view key) const { return settings_.origins.contains(std::string(key)); }

  Result<void> take(const Taken& one, const json& value) {
    const spec::Field& field = *schema_.find(one.key);
    if (auto read = field.read(settings_.spec, node_of(value)); !read)
      return Error{Error::Kind::bad_input,
                   fmt::format("{}: \"{}\" is {}", name_, one.theirs, shown(value)),
                   fmt::format("{}; or set {}, which overrules it", field.accepted, one.key)};
    settings_.origins[std::string(one.key)] = {spec::Origin::Kind::model, name_};
    return {};
  }

  Result<void> take_sampling() {
    const bool greedy = has(file_, "do_sample") && file_["do_sample"] == false;
    for (const Taken& one : taken_settings) {
      const bool temperature = one.key == "generation.temperature";
      if (is_set(one.key) || one.key == "generation.max_new_tokens") continue;
      if (temperature && greedy) {
        if (auto taken = take(one, json(0)); !taken) return taken;
        words_.push_back("temperature 0 (do_sample is false)");
      } else if (has(file_, one.theirs)) {
        json value = file_[one.theirs];
        if (one.key == "generation.stop" && value.is_string()) value = json::array({value});
        if (one.key == "generation.top_k" && value == -1) value = 0;  // as vLLM writes "all"
        if (auto taken = take(one, value); !taken) return taken;
        words_.push_back(fmt::format("{} {}", one.theirs, shown(value)));
      }
    }
    return {};
  }

  // The model's authors may have had longer sequences in mind than are computed here.
  Result<void> take_length() {
    const Taken& length = *std::ranges::find(taken_settings, "generation.max_new_tokens", &Taken::key);
    if (is_set(length.key) || !has(file_, length.theirs)) return {};
    if (auto taken = take(length, file_[length.theirs]); !taken) return taken;
    spec::GenerationSpec& generation = settings_.spec.generation;
    std::string words = fmt::format("max_new_tokens {}", generation.max_new_tokens);
    if (generation.max_new_tokens >= generation.sequence_length) {
      generation.max_new_tokens = std::max<std::int64_t>(generation.sequence_length / 2, 1);
      words += fmt::format(" lowered to {}, half of generation.sequence_length, which leaves room for a prompt",
                           generation.max_new_tokens);
    }
    words_.push_back(std::move(words));
    return {};
  }

  void name_unsupported() {
    std::vector<std::string> words;
    for (const Unsupported& one : unsupported)
      if (file_.contains(one.theirs) && !changes_nothing(file_[one.theirs], one.neutral))
        words.push_back(fmt::format("{} {}", one.theirs, shown(file_[one.theirs])));
    // Ours is a limit, too: one that is not lower changes nothing.
    if (has(file_, "max_length") && !has(file_, "max_new_tokens") && file_["max_length"].is_number() &&
        file_["max_length"] < settings_.spec.generation.sequence_length)
      words.push_back(fmt::format("max_length {} (set generation.sequence_length)", shown(file_["max_length"])));
    if (!words.empty())
      settings_.notes.push_back(fmt::format("{}: not supported, and left out: {}", name_, join(words, ", ")));
  }

  const spec::Schema schema_;
  spec::ResolvedSpec& settings_;
  const json& file_;
  std::string name_;
  std::vector<std::string> words_;  // what was applied
};

}  // namespace

Result<void> add_generation_defaults(spec::ResolvedSpec& settings) {
  if (auto taken = take_model_name(settings.spec.model); !taken) return taken;
  const auto path = file_of(settings.spec.model);
  if (!path) return {};
  const auto text = read_file(*path);
  if (!text) return text.error();
  const auto file = parse_json_object(*text, path->string());
  if (!file) return file.error();
  return Defaults(settings, *file, path->string()).add();
}

}  // namespace muster::job
