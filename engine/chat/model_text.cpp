#include "chat/model_text.hpp"

#include <fmt/format.h>

#include <span>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "chat/special_tokens.hpp"
#include "json/json_text.hpp"
#include "tokenizer/pattern.hpp"

namespace muster::chat {
namespace {

using nlohmann::json;

// The object of a file, null where there is no file.
Result<json> parse_file(const std::optional<std::string>& text, const std::string& source, const char* name) {
  if (!text) return json(nullptr);
  return parse_json_object(*text, fmt::format("{}: {}", source, name));
}

// Templates in tokenizer_config.json: a text, a list of {"name", "template"}, or an object of them.
std::map<std::string, std::string> templates_of(const json& config) {
  std::map<std::string, std::string> templates;
  if (!config.is_object() || !config.contains("chat_template")) return templates;
  const json& given = config["chat_template"];
  if (given.is_string()) templates["default"] = given.get<std::string>();
  if (given.is_object())
    for (const auto& [name, text] : given.items())
      if (text.is_string()) templates[name] = text.get<std::string>();
  if (given.is_array())
    for (const json& entry : given)
      if (entry.is_object() && entry.contains("name") && entry["name"].is_string() && entry.contains("template") &&
          entry["template"].is_string())
        templates[entry["name"].get<std::string>()] = entry["template"].get<std::string>();
  return templates;
}

std::string model_type_of(const json& config) {
  if (!config.is_object() || !config.contains("model_type") || !config["model_type"].is_string()) return "";
  return config["model_type"].get<std::string>();
}

std::vector<tokenizer::TokenId> end_tokens_of(const json& generation_config, const json& config,
                                              const NamedTokens& tokens, const tokenizer::Tokenizer& tokenizer) {
  for (const json* file : {&generation_config, &config})
    if (auto ids = read_token_ids(*file, "eos_token_id"); !ids.empty()) return ids;
  const auto end = tokens.find("eos_token");
  const auto id = end == tokens.end() ? std::nullopt : tokenizer.find(end->second);
  return id ? std::vector{*id} : std::vector<tokenizer::TokenId>{};
}

// By a fast checksum, since these files may be large and are read for every command.
std::string identity_of(const ModelTextFiles& files) {
  std::uint64_t first = 1, second = 2;
  const auto add = [&](std::string_view text) {
    first = checksum(std::as_bytes(std::span(text)), first);
    second = checksum(std::as_bytes(std::span(text)), second);
  };
  add(files.tokenizer);
  for (const auto* text :
       {&files.tokenizer_config, &files.special_tokens_map, &files.generation_config, &files.config}) {
    add(text->has_value() ? "given" : "none");
    add(text->value_or(""));
  }
  for (const auto& [name, source] : files.templates) {
    add(name);
    add(source);
  }
  return fmt::format("{:016x}{:016x}", first, second);
}

// The tokenizer's one exception becomes an error.
Result<std::vector<tokenizer::TokenId>> encoded(const tokenizer::Tokenizer& tokenizer, std::string_view text,
                                                bool add_special_tokens) try {
  return tokenizer.encode(text, add_special_tokens);
} catch (const tokenizer::PatternFailure& failure) {
  return Error{Error::Kind::bad_input, failure.what(), "check tokenizer.json's pattern, or shorten the text"};
}

}  // namespace

Result<ModelText> ModelText::parse(const ModelTextFiles& files) {
  auto tokenizer = tokenizer::Tokenizer::parse(files.tokenizer, files.source);
  if (!tokenizer) return tokenizer.error();
  const auto tokenizer_config = parse_file(files.tokenizer_config, files.source, "tokenizer_config.json");
  if (!tokenizer_config) return tokenizer_config.error();
  const auto tokens_map = parse_file(files.special_tokens_map, files.source, "special_tokens_map.json");
  if (!tokens_map) return tokens_map.error();
  const auto generation_config = parse_file(files.generation_config, files.source, "generation_config.json");
  if (!generation_config) return generation_config.error();
  const auto config = parse_file(files.config, files.source, "config.json");
  if (!config) return config.error();
  ModelText text(std::move(*tokenizer), files.source);
  text.identity_ = identity_of(files);
  text.special_tokens_ = read_special_tokens(*tokenizer_config, *tokens_map, model_type_of(*config), text.tokenizer_);
  text.end_tokens_ = end_tokens_of(*generation_config, *config, text.special_tokens_, text.tokenizer_);
  const auto templates = files.templates.empty() ? templates_of(*tokenizer_config) : files.templates;
  for (const auto& [name, source] : templates)
    text.templates_.emplace(
        name, ChatTemplate::parse(source, fmt::format("{}: chat template{}", files.source,
                                                      name == "default" ? "" : fmt::format(" '{}'", name))));
  return text;
}

Result<ChatTemplate> ModelText::chat_template(const Conversation& conversation) const {
  if (templates_.empty())
    return Error{Error::Kind::bad_input, fmt::format("{} has no chat template, and messages need one", source_),
                 "give \"prompt\" in place of \"messages\", or put a chat_template.jinja beside tokenizer.json"};
  const bool uses_tools = !conversation.tools.is_null() && templates_.contains("tool_use");
  const auto chosen = templates_.find(uses_tools ? "tool_use" : "default");
  if (chosen != templates_.end()) return chosen->second;
  if (templates_.size() == 1) return templates_.begin()->second;
  std::vector<std::string> names;
  for (const auto& entry : templates_) names.push_back(entry.first);
  return Error{Error::Kind::bad_input,
               fmt::format("{} has several chat templates and none is the default: {}", source_, join(names, ", ")),
               "name the one that is meant 'default'"};
}

Result<ChatTemplate::Rendered> ModelText::render(const Conversation& conversation, const RenderOptions& options) const {
  const auto chosen = chat_template(conversation);
  if (!chosen) return chosen.error();
  return render_conversation(*chosen, conversation, special_tokens_, options);
}

Result<std::vector<tokenizer::TokenId>> ModelText::encode(std::string_view text) const {
  return encoded(tokenizer_, text, true);
}

Result<std::vector<tokenizer::TokenId>> ModelText::encode_rendered(std::string_view text) const {
  return encoded(tokenizer_, text, false);
}

Result<std::vector<tokenizer::TokenId>> ModelText::encode_chat(const Conversation& conversation) const {
  const auto rendered = render(conversation);
  if (!rendered) return rendered.error();
  return encode_rendered(rendered->text);
}

}  // namespace muster::chat
