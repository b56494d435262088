#include "environment/row_fields.hpp"

#include "base/text.hpp"

namespace muster::environment {
namespace {

constexpr std::initializer_list<const char*> questions{"prompt", "question", "text"};

const Row* conversation_of(const Row& row) {
  for (const char* column : {"messages", "prompt"})
    if (const auto found = row.find(column); found != row.end() && found->is_array() && !found->empty()) return &*found;
  return nullptr;
}

bool is_assistants(const Row& message) { return message.is_object() && message.value("role", Row()) == "assistant"; }

}  // namespace

std::optional<std::string> text_of(const Row& row, std::initializer_list<const char*> columns) {
  for (const char* column : columns) {
    const auto found = row.find(column);
    if (found == row.end()) continue;
    if (found->is_string() && !trim(found->get_ref<const std::string&>()).empty()) return found->get<std::string>();
    if (found->is_number()) return found->dump();
  }
  return std::nullopt;
}

std::vector<std::string> texts_of(const Row& row, const char* column) {
  std::vector<std::string> texts;
  const auto found = row.find(column);
  if (found == row.end()) return texts;
  if (found->is_string()) texts.push_back(found->get<std::string>());
  if (found->is_array())
    for (const Row& text : *found)
      if (text.is_string()) texts.push_back(text.get<std::string>());
  return texts;
}

Result<std::vector<Message>> question_of(const Row& row) {
  const Error nothing_asked = bad_input("it has no \"prompt\" or \"question\", a text or messages, and no \"messages\"",
                                        R"({"prompt": "What is 6 times 7?", "answer": "42"})");
  const Row* conversation = conversation_of(row);
  if (conversation == nullptr) {
    const auto question = text_of(row, questions);
    if (!question) return nothing_asked;
    return std::vector<Message>{{"user", *question}};
  }
  std::vector<Message> messages;
  for (const Row& message : *conversation) {
    const bool is_whole = message.is_object() && message.contains("role") && message["role"].is_string() &&
                          message.contains("content") && message["content"].is_string();
    if (!is_whole)
      return bad_input("a message has no text \"role\" and \"content\"", R"([{"role": "user", "content": "…"}])");
    messages.push_back({message["role"].get<std::string>(), message["content"].get<std::string>()});
  }
  if (is_assistants(conversation->back())) messages.pop_back();
  if (messages.empty()) return nothing_asked;
  return messages;
}

std::optional<std::string> answer_of(const Row& row) {
  if (auto answer = text_of(row, {"answer", "solution", "completion"})) return answer;
  const Row* conversation = conversation_of(row);
  if (conversation == nullptr || !is_assistants(conversation->back())) return std::nullopt;
  return text_of(conversation->back(), {"content"});
}

}  // namespace muster::environment
