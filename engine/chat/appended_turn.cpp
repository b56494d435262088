#include "chat/appended_turn.hpp"

#include "base/text.hpp"

namespace muster::chat {
namespace {

// Stands where the answer was; no template changes it.
constexpr std::string_view place_of_answer = "PLACEOFTHEANSWER";
constexpr std::string_view cut_mark = "\n… (cut) …\n";

std::string contents_of(const nlohmann::ordered_json& messages) {
  std::string text;
  for (const auto& message : messages) {
    if (!text.empty()) text += "\n";
    text += message.value("content", "");
  }
  return text;
}

}  // namespace

Result<Opening> open_conversation(const ModelText& text, const nlohmann::ordered_json& messages) {
  if (!text.has_chat_template()) return Opening{contents_of(messages), false};
  Conversation conversation;
  conversation.messages = messages;
  conversation.add_generation_prompt = true;
  auto rendered = text.render(conversation);
  if (!rendered) return rendered.error();
  return Opening{std::move(rendered->text), true};
}

Result<std::vector<tokenizer::TokenId>> tokens_after_answer(const ModelText& text, const nlohmann::ordered_json& messages,
                                                            tokenizer::TokenId last) {
  if (!text.has_chat_template()) return text.encode_rendered("\n" + contents_of(messages) + "\n");
  Conversation conversation;
  conversation.messages.push_back({{"role", "user"}, {"content", "?"}});
  conversation.messages.push_back({{"role", "assistant"}, {"content", place_of_answer}});
  for (const auto& message : messages) conversation.messages.push_back(message);
  conversation.add_generation_prompt = true;
  const auto rendered = text.render(conversation);
  if (!rendered) return rendered.error();
  const auto place = rendered->text.find(place_of_answer);
  if (place == std::string::npos)
    return bad_input("the chat template leaves out an assistant's message", "take a model whose template writes it");
  auto tokens = text.encode_rendered(std::string_view(rendered->text).substr(place + place_of_answer.size()));
  if (tokens && !tokens->empty() && tokens->front() == last) tokens->erase(tokens->begin());
  return tokens;
}

std::string cut_in_the_middle(const ModelText& text, const std::string& content, std::int64_t most_tokens) {
  const auto tokens = text.encode_rendered(content);
  if (!tokens || std::ssize(*tokens) <= most_tokens) return content;
  const auto mark = text.encode_rendered(cut_mark);
  // Where the mark would take most of the room, there is none.
  const bool is_marked = mark && 2 * std::ssize(*mark) <= most_tokens;
  const std::int64_t kept = is_marked ? most_tokens - std::ssize(*mark) : most_tokens;
  const std::vector<tokenizer::TokenId> begin(tokens->begin(), tokens->begin() + (kept + 1) / 2);
  const std::vector<tokenizer::TokenId> end(tokens->end() - kept / 2, tokens->end());
  return text.tokenizer().decode(begin, true) + std::string(is_marked ? cut_mark : "") + text.tokenizer().decode(end, true);
}

}  // namespace muster::chat
