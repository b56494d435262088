// A conversation, and the variables that a chat template sees of it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.hpp"
#include "chat/chat_template.hpp"

namespace muster::chat {

struct Conversation {
  nlohmann::ordered_json messages =
      nlohmann::ordered_json::array();     // objects with role, content and what else there is
  nlohmann::ordered_json tools = nullptr;  // JSON schemas of functions; null: none
  nlohmann::ordered_json documents = nullptr;
  bool add_generation_prompt = false;   // the words that an answer begins with
  bool continue_final_message = false;  // leaves the last message open, to be continued
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  // whatever else the template knows
};

using NamedTokens = std::map<std::string, std::string>;  // "bos_token" → "<s>"

// As transformers' apply_chat_template does it: its checks, its variables, its names for a message's reasoning.
Result<ChatTemplate::Rendered> render_conversation(const ChatTemplate& chat_template, const Conversation& conversation,
                                                   const NamedTokens& tokens, const RenderOptions& options = {});

}  // namespace muster::chat
