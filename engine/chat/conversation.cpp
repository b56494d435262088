#include "chat/conversation.hpp"

#include <fmt/format.h>

#include <array>

#include "base/text.hpp"
#include "chat/code_points.hpp"

namespace muster::chat {
namespace {

using Json = nlohmann::ordered_json;

// Put for a moment at the end of a message that is to be continued, to find that place in the text.
constexpr std::string_view continuation_mark = "CONTINUE_FINAL_MESSAGE_TAG ";

Result<void> check_objects(const Json& list, std::string_view name) {
  if (!list.is_array())
    return bad_input(fmt::format("{} is not a list", name), fmt::format("{}: a list of objects", name));
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!list[i].is_object())
      return bad_input(fmt::format("{}[{}] is not an object", name, i), fmt::format("{}: a list of objects", name));
  return {};
}

Result<void> check(const Conversation& conversation) {
  if (auto checked = check_objects(conversation.messages, "messages"); !checked) return checked;
  if (conversation.messages.empty()) return bad_input("messages is empty", "give at least one message");
  if (!conversation.tools.is_null())
    if (auto checked = check_objects(conversation.tools, "tools"); !checked) return checked;
  if (!conversation.documents.is_null())
    if (auto checked = check_objects(conversation.documents, "documents"); !checked) return checked;
  if (!conversation.variables.is_object())
    return bad_input("the template's variables are not an object", "template_variables: {\"name\": value}");
  for (const char* taken : {"messages", "tools", "documents", "add_generation_prompt"})
    if (conversation.variables.contains(taken))
      return bad_input(fmt::format("the template's variable '{}' is given twice", taken),
                       fmt::format("give {} beside messages", taken));
  if (conversation.continue_final_message && conversation.add_generation_prompt)
    return bad_input("continue_final_message and add_generation_prompt exclude each other", "give one of the two");
  return {};
}

// A message's reasoning under all the names that templates read it by.
void name_reasoning(Json& message) {
  constexpr std::array names{"reasoning_content", "thinking", "reasoning"};
  for (const char* name : names) {
    const auto found = message.find(name);
    if (found == message.end() || found->is_null()) continue;
    const Json reasoning = *found;
    Json named{{"thinking", reasoning}};  // first, as a template that goes through all keys would see it
    for (const auto& [key, value] : message.items()) named[key] = value;
    named["reasoning_content"] = reasoning;
    message = std::move(named);
    return;
  }
}

// Puts the mark after the text of the last message; returns that text.
Result<std::string> mark_end(Json& message, const std::string& source) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null())
    return bad_input("continue_final_message: the last message has no content",
                     "end messages with what is to be continued");
  if (source.find("content") == std::string::npos)
    return bad_input("continue_final_message: the chat template writes no content", "leave it out");
  if (content->is_array()) {
    for (auto part = content->rbegin(); part != content->rend(); ++part)
      if (part->is_object() && part->contains("text") && (*part)["text"].is_string()) {
        std::string text = (*part)["text"];
        (*part)["text"] = text + std::string(continuation_mark);
        return text;
      }
    return bad_input("continue_final_message: no text in the last message",
                     "end messages with what is to be continued");
  }
  if (!content->is_string())
    return bad_input("continue_final_message: the last message's content is not text",
                     "end messages with what is to be continued");
  std::string text = *content;
  *content = text + std::string(continuation_mark);
  return text;
}

// Cuts the text where the mark is.
Result<void> cut_at_mark(std::string& text, const std::string& last) {
  const std::string_view short_mark = strip_right(continuation_mark);
  const std::size_t at = text.rfind(short_mark);
  if (at == std::string::npos || text.find(strip_left(strip_right(last))) == std::string::npos)
    return bad_input("continue_final_message: the chat template leaves out or changes the last message",
                     "leave it out");
  const bool kept = std::string_view(text).substr(at).starts_with(continuation_mark);
  text.resize(at);
  if (!kept) text.resize(strip_right(text).size());  // the template trimmed the message, and so its end
  return {};
}

}  // namespace

Result<ChatTemplate::Rendered> render_conversation(const ChatTemplate& chat_template, const Conversation& conversation,
                                                   const NamedTokens& tokens, const RenderOptions& options) {
  if (auto checked = check(conversation); !checked) return checked.error();
  Json variables{{"messages", conversation.messages},
                 {"tools", conversation.tools},
                 {"documents", conversation.documents},
                 {"add_generation_prompt", conversation.add_generation_prompt}};
  for (Json& message : variables["messages"]) name_reasoning(message);
  for (const auto& [name, token] : tokens) variables[name] = token;
  for (const auto& [name, value] : conversation.variables.items()) variables[name] = value;
  if (!conversation.continue_final_message) return chat_template.render(variables, options);
  const auto last = mark_end(variables["messages"].back(), chat_template.source());
  if (!last) return last.error();
  auto rendered = chat_template.render(variables, options);
  if (!rendered) return rendered;
  if (auto cut = cut_at_mark(rendered->text, *last); !cut) return cut.error();
  for (auto& span : rendered->generated) {
    span.begin = std::min(span.begin, rendered->text.size());
    span.end = std::min(span.end, rendered->text.size());
  }
  return rendered;
}

}  // namespace muster::chat
