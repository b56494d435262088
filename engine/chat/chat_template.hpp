// Chat templates: how a model wants a conversation to be written, as the model's folder defines it.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "chat/render_options.hpp"

namespace muster::chat {

struct TemplateTree;

// Immutable, cheap to copy, safe to use from many threads. The language is the Jinja that chat templates are written
// in, with the meaning that transformers' apply_chat_template gives it (docs/chat-templates.md).
class ChatTemplate {
 public:
  // Refused, with name and line: what is not a template, and what goes beyond the supported language.
  static Result<ChatTemplate> parse(std::string_view source, std::string_view name);

  // Bytes of the text.
  struct Span {
    std::size_t begin = 0, end = 0;
    bool operator==(const Span&) const = default;
  };
  struct Rendered {
    std::string text;
    std::vector<Span> generated;  // what is inside {% generation %}
  };
  // variables: an object with messages, tools, documents, add_generation_prompt, bos_token, … What the template refuses
  // (raise_exception) and what goes wrong in it are errors with the line.
  Result<Rendered> render(const nlohmann::ordered_json& variables, const RenderOptions& options = {}) const;

  const std::string& name() const { return name_; }
  const std::string& source() const { return source_; }

 private:
  ChatTemplate(std::string name, std::string source, std::shared_ptr<const TemplateTree> tree)
      : name_(std::move(name)), source_(std::move(source)), tree_(std::move(tree)) {}

  std::string name_, source_;
  std::shared_ptr<const TemplateTree> tree_;
};

}  // namespace muster::chat
