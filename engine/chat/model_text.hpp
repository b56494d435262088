// What a model's folder or file says about text: its tokenizer, its chat templates, its special tokens, which tokens
// end an answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "chat/chat_template.hpp"
#include "chat/conversation.hpp"
#include "spec/model/model_search.hpp"
#include "tokenizer/tokenizer.hpp"

namespace muster::chat {

// The texts of Hugging Face's files. A GGUF file gives the same (checkpoint/gguf_tokenizer.hpp).
struct ModelTextFiles {
  std::string source;                             // the folder or file, for messages
  std::string tokenizer;                          // tokenizer.json
  std::optional<std::string> tokenizer_config;    // tokenizer_config.json
  std::optional<std::string> special_tokens_map;  // special_tokens_map.json
  std::optional<std::string> generation_config;   // generation_config.json
  std::optional<std::string> config;              // config.json
  std::map<std::string, std::string> templates;   // by name: chat_template.jinja is "default"
};

// Immutable, cheap to copy, safe to use from many threads.
class ModelText {
 public:
  static Result<ModelText> parse(const ModelTextFiles& files);

  const tokenizer::Tokenizer& tokenizer() const { return tokenizer_; }
  // "bos_token" → "<s>": the tokens that have a name.
  const NamedTokens& special_tokens() const { return special_tokens_; }
  // Any of them ends an answer: generation_config.json's, else config.json's, else the tokenizer's own.
  const std::vector<tokenizer::TokenId>& end_tokens() const { return end_tokens_; }
  // Shows whether another one makes the same tokens from the same rows: a digest of the files.
  const std::string& identity() const { return identity_; }
  bool has_chat_template() const { return !templates_.empty(); }

  // The model's template for this conversation: "tool_use" where there is one and tools are given, else "default".
  Result<ChatTemplate> chat_template(const Conversation& conversation) const;
  Result<ChatTemplate::Rendered> render(const Conversation& conversation, const RenderOptions& options = {}) const;

  // A text as a prompt: with what the tokenizer puts around one (a begin token, say). tokenizer.json alone decides
  // that; add_bos_token in tokenizer_config.json is for models without one, as in transformers.
  Result<std::vector<tokenizer::TokenId>> encode(std::string_view text) const;
  // The rendered conversation; the template writes the special tokens itself, so that none is added.
  Result<std::vector<tokenizer::TokenId>> encode_chat(const Conversation& conversation) const;
  Result<std::vector<tokenizer::TokenId>> encode_rendered(std::string_view text) const;

 private:
  ModelText(tokenizer::Tokenizer tokenizer, std::string source)
      : tokenizer_(std::move(tokenizer)), source_(std::move(source)) {}

  tokenizer::Tokenizer tokenizer_;
  std::string source_;
  std::string identity_;
  NamedTokens special_tokens_;
  std::vector<tokenizer::TokenId> end_tokens_;
  std::map<std::string, Result<ChatTemplate>> templates_;  // one that is refused says so when it is needed
};

// A folder, a tokenizer.json or a GGUF file.
Result<ModelText> read_model_text(const std::filesystem::path& path);
// The same by what a user names: a path, a name in the store or in the Hugging Face cache.
Result<ModelText> read_model_text(const std::string& model, const spec::ModelSearch& search);

}  // namespace muster::chat
