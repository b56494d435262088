#include "chat/special_tokens.hpp"

#include <array>
#include <string_view>

namespace muster::chat {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 7> common_names{"bos_token", "eos_token", "unk_token", "sep_token",
                                                       "pad_token", "cls_token", "mask_token"};

bool is_common(std::string_view name) {
  return std::find(common_names.begin(), common_names.end(), name) != common_names.end();
}

// A token is written as its text, or as an object that describes it.
std::optional<std::string> token_text(const json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object() && token.contains("content") && token["content"].is_string())
    return token["content"].get<std::string>();
  return std::nullopt;
}

void read_names(const json& file, NamedTokens& tokens) {
  if (!file.is_object()) return;
  for (const auto& [name, token] : file.items()) {
    if (!is_common(name) && !(name.ends_with("_token") && (token.is_string() || token.is_object()))) continue;
    if (auto text = token_text(token))
      tokens[name] = std::move(*text);
    else if (token.is_null())
      tokens.erase(name);
  }
  const auto extra = file.find("extra_special_tokens");
  if (extra == file.end() || !extra->is_object()) return;
  for (const auto& [name, token] : extra->items())
    if (auto text = token_text(token)) tokens[name] = std::move(*text);
}

// What a family's tokenizer calls its tokens where no file says it.
struct FamilyTokens {
  std::string_view type;  // config.json's model_type, and what tokenizer_class begins with
  std::string_view tokenizer_class;
  std::string_view begin, end, unknown, padding;  // empty: none
};
constexpr FamilyTokens families[] = {
    {"gpt2", "GPT2Tokenizer", "<|endoftext|>", "<|endoftext|>", "<|endoftext|>", ""},
    {"llama", "LlamaTokenizer", "<s>", "</s>", "<unk>", ""},
    {"mistral", "LlamaTokenizer", "<s>", "</s>", "<unk>", ""},
    {"qwen2", "Qwen2Tokenizer", "", "<|endoftext|>", "<|endoftext|>", "<|endoftext|>"},
    {"qwen3", "Qwen2Tokenizer", "", "<|endoftext|>", "<|endoftext|>", "<|endoftext|>"},
};

void add_family_tokens(const json& config, const std::string& model_type, const tokenizer::Tokenizer& tokenizer,
                       NamedTokens& tokens) {
  const bool named = config.is_object() && config.contains("tokenizer_class") && config["tokenizer_class"].is_string();
  const std::string tokenizer_class = named ? config["tokenizer_class"].get<std::string>() : "";
  for (const FamilyTokens& family : families) {
    const bool meant = named ? tokenizer_class.starts_with(family.tokenizer_class) : family.type == model_type;
    if (!meant) continue;
    const std::pair<const char*, std::string_view> usual[] = {{"bos_token", family.begin},
                                                              {"eos_token", family.end},
                                                              {"unk_token", family.unknown},
                                                              {"pad_token", family.padding}};
    for (const auto& [name, token] : usual) {
      const bool said = config.is_object() && config.contains(name);
      if (!token.empty() && !said && !tokens.contains(name) && tokenizer.find(token)) tokens[name] = token;
    }
    return;
  }
}

}  // namespace

NamedTokens read_special_tokens(const json& tokenizer_config, const json& special_tokens_map,
                                const std::string& model_type, const tokenizer::Tokenizer& tokenizer) {
  NamedTokens tokens;
  read_names(tokenizer_config, tokens);
  const bool describes_tokens = tokenizer_config.is_object() && tokenizer_config.contains("added_tokens_decoder");
  if (!describes_tokens) read_names(special_tokens_map, tokens);
  add_family_tokens(tokenizer_config, model_type, tokenizer, tokens);
  return tokens;
}

std::vector<tokenizer::TokenId> read_token_ids(const json& config, const char* key) {
  std::vector<tokenizer::TokenId> ids;
  if (!config.is_object() || !config.contains(key)) return ids;
  const json& given = config[key];
  const auto take = [&](const json& id) {
    if (id.is_number_integer() && id >= 0 && id <= tokenizer::largest_token_id)
      ids.push_back(id.get<tokenizer::TokenId>());
  };
  if (given.is_array())
    for (const json& id : given) take(id);
  else
    take(given);
  return ids;
}

}  // namespace muster::chat
